"""One replica's side: what its loop is told to do."""

from __future__ import annotations

from raytide.elastic.ballot import Outcome
from raytide.elastic.member import (
    AbortBelow,
    Adopt,
    Connect,
    Exit,
    HaltNow,
    Member,
    Proceed,
    Rejoin,
    Send,
    Wait,
)
from raytide.elastic.messages import (
    Committed,
    Connected,
    Demote,
    Fence,
    GenerationFailed,
    Halt,
    Halted,
    Publish,
    Ready,
    Release,
    Save,
    Switched,
)
from raytide.elastic.model import Cost, Generation, Position, Transfer

FIRST = Generation(1, ("a", "b"))


def adopt(member: Member, generation: Generation, applied: int | None = None) -> list[object]:
    member.handle(Publish(generation))
    member.connected(generation.number)
    at = member.applied if applied is None else applied
    return member.adopted(generation, applied=at, collectives=0, cost=Cost())


def trained(name: str = "a", generation: Generation = FIRST, steps: int = 3) -> Member:
    """A member after some steps."""
    member = Member(name, has_state=True)
    member.park()
    adopt(member, generation)
    for _ in range(steps):
        member.applied_step()
    return member


def agree(member: Member, *, connected_to: int = 0, halt: bool = False, depth: int = 0) -> None:
    outcome = Outcome(connected_to, depth, halt=halt, stop=False, together=True)
    member.decide(outcome)


def test_an_initial_replica_parks_connects_adopts_and_trains():
    member = Member("a", has_state=True)
    assert isinstance(member.next_action(boundary=True), Rejoin)
    assert member.park() == [Send(Ready())]
    assert isinstance(member.next_action(boundary=True), Wait)
    assert member.handle(Publish(FIRST)) == [Connect(FIRST)]
    assert member.connected(1) == [Send(Connected(1))]
    assert member.next_action(boundary=True) == Adopt(FIRST)
    assert member.adopted(FIRST, applied=0, collectives=0, cost=Cost()) == [Send(Switched(1, Cost()))]
    assert member.next_action(boundary=True) == Proceed(FIRST)
    assert member.applied_step() == [Send(Committed(1, 1))]
    assert member.applied_step() == []


def test_a_planned_switch_happens_at_the_agreed_boundary_and_nowhere_else():
    member, new = trained(), Generation(2, ("a", "b", "c"), planned=True)
    member.handle(Publish(new))
    assert member.ballot(0, 1, stop=False).connected_to == 0
    member.connected(2)
    assert member.ballot(0, 1, stop=False).connected_to == 2
    agree(member, connected_to=2, depth=1)
    assert member.switch_at == 5
    member.applied_step()
    assert member.next_action(boundary=True) == Proceed(FIRST)
    member.applied_step()
    assert member.next_action(boundary=False) == Proceed(FIRST)
    assert member.next_action(boundary=True) == Adopt(new)


def test_a_newcomer_meets_the_state_as_soon_as_it_is_connected():
    member, new = Member("c", has_state=False), Generation(2, ("a", "c"), planned=True)
    member.park()
    member.handle(Publish(new))
    member.connected(2)
    assert member.next_action(boundary=True) == Adopt(new)
    member.adopted(new, applied=5, collectives=0, cost=Cost())
    assert (member.applied, member.has_state) == (5, True)


def test_a_fenced_member_is_silent_until_the_next_generation():
    member = trained()
    effects = member.handle(Fence(2))
    assert effects[0] == AbortBelow(2)
    assert (effects[1].message.applied, effects[1].message.fence) == (3, 2)
    assert isinstance(member.next_action(boundary=True), Wait)
    assert member.failed(1, "aborted") == []
    adopt(member, Generation(3, ("a",)))
    assert isinstance(member.next_action(boundary=True), Proceed)


def test_a_transfer_overtaken_by_a_fence_changes_nothing():
    member, new = trained(), Generation(2, ("a", "b", "c"), planned=True)
    member.handle(Publish(new))
    member.connected(2)
    member.handle(Fence(3))
    assert member.adopted(new, applied=9, collectives=0, cost=Cost()) == []
    assert member.applied == 3


def test_old_generations_are_refused():
    member = trained(generation=Generation(4, ("a", "b")))
    assert member.handle(Publish(Generation(3, ("a", "b")))) == []
    assert member.handle(Fence(2)) == []
    assert member.connected(3) == []


def test_a_failure_is_told_once_it_concerns_a_known_generation():
    member = trained()
    assert member.failed(7, "?") == []
    assert member.failed(1, "peer closed") == [Send(GenerationFailed(1, 3, "peer closed"))]
    assert isinstance(member.next_action(boundary=True), Wait)


def test_all_halt_at_the_boundary_behind_the_vote():
    member = trained()
    member.handle(Halt("h", save=True, generation=1))
    assert member.ballot(0, 0, stop=False).halt
    agree(member, halt=True)
    member.applied_step()
    assert member.next_action(boundary=True) == HaltNow("h", save=True)
    assert member.halted(Position(4), "ck") == [Send(Halted("h", Position(4), "ck", generation=1))]
    assert isinstance(member.next_action(boundary=True), Wait)


def test_only_rank_0_says_that_all_have_halted():
    member = trained("b")
    member.handle(Halt("h", save=True, generation=1))
    assert member.halted(Position(3)) == []
    assert isinstance(member.next_action(boundary=True), Wait)


def test_a_demoted_member_is_a_newcomer_again():
    member = trained()
    member.handle(Fence(2))
    member.handle(Demote(2))
    assert isinstance(member.next_action(boundary=True), Rejoin)
    assert not member.has_state


def test_a_late_demotion_does_not_touch_a_newer_membership():
    member = trained(generation=Generation(5, ("a", "b")))
    member.handle(Demote(4))
    assert isinstance(member.next_action(boundary=True), Proceed)


def test_a_released_member_exits():
    member = trained()
    assert member.handle(Release("done")) == [AbortBelow(2)]
    assert member.next_action(boundary=False) == Exit("done")


def test_a_member_whose_loop_returned_can_still_be_a_source():
    member, recovery = trained(), Generation(3, ("a", "b"), (Transfer("a", ("b",)),))
    member.finish()
    assert isinstance(member.next_action(boundary=False), Wait)
    member.handle(Fence(2))
    member.handle(Publish(recovery))
    member.connected(3)
    assert member.next_action(boundary=False) == Adopt(recovery)


def test_a_leaver_stays_until_it_is_released():
    member, new = trained(), Generation(2, ("b", "c"), (Transfer("a", ("c",)),), planned=True)
    adopt(member, new)
    assert isinstance(member.next_action(boundary=True), Wait)
    assert member.status().left_for == 2


def test_saves_are_taken_once():
    member = trained()
    member.handle(Save("s"))
    member.handle(Save("s"))
    assert list(member.take_saves()) == [Save("s")]
    assert not member.take_saves()


# --- what went wrong once -----------------------------------------------------------------------


def test_a_leaver_that_hands_nothing_over_still_votes():
    """It was told of the switch, ignored it as none of its business, and so nobody ever switched."""
    member, smaller = trained(), Generation(2, ("b",), planned=True)
    assert member.handle(Publish(smaller)) == [Send(Connected(2))]
    assert member.ballot(0, 0, stop=False).connected_to == 2
    agree(member, connected_to=2)
    member.applied_step()
    assert member.next_action(boundary=True) == Adopt(smaller)


def test_a_planned_generation_out_of_reach_does_not_stop_the_active_one():
    """With the master its store died; the failed connection broke the healthy generation, too."""
    member = trained()
    member.handle(Publish(Generation(2, ("a", "b", "c"), planned=True)))
    assert member.failed(2, "no store") == [Send(GenerationFailed(2, 3, "no store"))]
    assert member.next_action(boundary=True) == Proceed(FIRST)


def test_a_publication_repeated_after_its_failure_is_refused():
    """A restarted master repeats its last effects; the member connected to the failed one again."""
    member, new = trained(), Generation(2, ("a", "b", "c"), planned=True)
    member.handle(Publish(new))
    member.failed(2, "no store")
    assert member.handle(Publish(new)) == []


def test_a_halt_ends_with_its_generation():
    """Saving failed, the suspension was called off, and the next generation halted all the same, for ever."""
    member = trained()
    member.handle(Halt("h", save=True, generation=1))
    member.handle(Fence(2))
    adopt(member, Generation(3, ("a", "b")))
    assert not member.ballot(0, 0, stop=False).halt
    member.handle(Halt("h", save=True, generation=1))
    assert not member.ballot(0, 0, stop=False).halt


def test_halted_is_said_again_to_a_new_master():
    """It was said to a dead master; the new one told everybody to halt, who had long done so."""
    member = trained()
    member.handle(Halt("h", save=True, generation=1))
    told = member.halted(Position(3), "ck")
    assert member.handle(Halt("h", save=True, generation=1)) == told


def test_a_halt_overtaken_by_a_fence_is_not_reported():
    """The checkpoint was written, but others had gone on to recover: they will halt again."""
    member = trained()
    member.handle(Halt("h", save=True, generation=1))
    member.handle(Fence(2))
    assert member.halted(Position(3), "ck") == []


def test_survivors_of_a_paused_generation_wait_at_their_boundary_and_switch_there():
    """They may stand behind the step in the middle of user collectives; a newcomer knows nothing of these."""
    member, paused = trained(), Generation(3, ("a",), paused=True)
    member.handle(Fence(2))
    adopt(member, paused)
    assert member.next_action(boundary=False) == Proceed(paused)
    assert isinstance(member.next_action(boundary=True), Wait)
    new = Generation(4, ("a", "c"), (Transfer("a", ("c",)),), planned=True)
    member.handle(Publish(new))
    member.connected(4)
    assert member.next_action(boundary=False) == Proceed(paused)
    assert member.next_action(boundary=True) == Adopt(new)


def test_a_paused_generation_halts_without_a_vote():
    """No steps, no ballots: waiting for one, a job short of replicas could not be suspended."""
    member, paused = trained(), Generation(3, ("a",), paused=True)
    member.handle(Fence(2))
    adopt(member, paused)
    member.handle(Halt("h", save=True, generation=3))
    assert member.next_action(boundary=True) == HaltNow("h", save=True)
