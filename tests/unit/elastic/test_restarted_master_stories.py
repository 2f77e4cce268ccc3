"""What a restarted master once got wrong: each test tells how, and holds that it does not again."""

from __future__ import annotations

from dataclasses import replace

from elastic_sim.desk import MEMBER, NEWCOMER, Desk, slot
from raytide.elastic.effects import EndJob, StartReplica
from raytide.elastic.messages import (
    AskStatus,
    Committed,
    Fence,
    GenerationFailed,
    Halt,
    Ready,
    Resize,
    Suspend,
)
from raytide.elastic.state import Phase

GROW = Resize("grow", add=(slot(7),))


def healthy(desk: Desk, **differing: object):
    """A member's answer to a restarted master."""
    return replace(MEMBER, **{"active": desk.active.number, "applied": 10, **differing})


def switching(desk: Desk | None = None) -> Desk:
    """Two members, and a newcomer r2 on its way in."""
    return (desk or Desk()).running().event(GROW).says("r2", Ready())


def test_ready_said_to_a_dead_master_is_believed_from_the_status():
    """The newcomer had said Ready once, to nobody; the resize waited for ever."""
    desk = Desk().running().event(GROW).restart()
    desk.says("r0", healthy(desk)).says("r1", healthy(desk))
    assert desk.phase is Phase.RUNNING
    assert desk.says("r2", replace(NEWCOMER, ready=True)).phase is Phase.SWITCHING


def test_ready_said_to_a_dead_master_is_believed_while_the_job_starts():
    """In phase starting nobody looked at the answers at all."""
    desk = Desk().says("r0", Ready()).restart()
    assert desk.told("r1") == [AskStatus()]
    assert desk.says("r1", replace(MEMBER, ready=True)).phase is Phase.FORMING


def test_a_failure_heard_while_adopting_counts():
    """A member answered that all was well, then failed; the master adopted a generation that stood still."""
    desk = Desk().running().restart()
    desk.says("r0", healthy(desk), GenerationFailed(desk.active.number, 10, "peer closed"))
    assert desk.phase is Phase.FENCING


def test_a_death_while_adopting_fences_at_once():
    desk = Desk().running().restart().dies("r1")
    assert desk.phase is Phase.FENCING


def test_a_commit_heard_while_adopting_is_remembered():
    """The statuses were from before the first step; its one Committed was thrown away as untimely."""
    desk = switching().restart()
    desk.says("r0", Committed(desk.pending.number, 11))
    for replica in ("r0", "r1", "r2"):
        desk.says(replica, replace(MEMBER, active=desk.pending.number, joined_at=10, applied=10))
    assert desk.phase is Phase.RUNNING
    assert desk.active.members == ("r0", "r1", "r2")


def test_a_leaver_that_has_left_does_not_make_the_switch_undecided():
    """Its status showed neither the old membership as pending nor the new one as active."""
    desk = Desk().running().event(Resize("shrink", remove=("r1",))).restart()
    new = desk.pending.number
    desk.says("r0", replace(MEMBER, active=new, joined_at=10, applied=12))
    desk.says("r1", replace(MEMBER, active=desk.active.number, applied=10, left_for=new))
    assert (desk.phase, desk.active.members) == (Phase.RUNNING, ("r0",))
    assert desk.answers["shrink"].error == ""


def test_a_switch_not_yet_connected_is_given_up_with_its_store():
    desk = switching().restart()
    desk.says("r0", healthy(desk, pending=desk.pending.number)).says("r1", healthy(desk))
    assert desk.says("r2", NEWCOMER).phase is Phase.FENCING


def test_a_second_restart_while_adopting():
    """Adopting after adopting was not a legal change."""
    desk = Desk().running().restart().restart()
    assert desk.phase is Phase.ADOPTING
    assert desk.says("r0", healthy(desk)).says("r1", healthy(desk)).phase is Phase.RUNNING


def test_a_restart_during_a_fence_fences_again():
    desk = Desk().running().dies("r1").restart()
    assert desk.master.state.fencing.number == 3
    assert Fence(3) in desk.told("r0")
    assert desk.answer_fence().phase is Phase.FORMING


def test_effects_that_never_left_are_repeated():
    """Journalled as done, never done: a replica that nobody starts, a job whose end nobody hears of."""
    assert Desk().running().event(GROW).restart().found(StartReplica)[0].replica == "r2"
    assert Desk().running().finished().restart().found(EndJob) == [EndJob(Phase.SUCCEEDED)]


def test_replicas_still_starting_are_not_suspected_by_a_new_master():
    """They have not said anything yet, and were given the patience meant for those that have."""
    desk = Desk().restart().wait(60.0)
    assert set(desk.master.state.replicas) == {"r0", "r1"}


def test_a_request_sent_again_gets_the_same_answer():
    """The client could not know whether its answer was lost or its request."""
    desk = switching().committed()
    first = desk.answers["grow"]
    assert desk.restart().event(GROW).answers["grow"] == first
    assert not desk.found(StartReplica)


def test_a_suspension_goes_on_under_a_new_master():
    desk = Desk().running().event(Suspend("pause")).restart()
    desk.says("r0", healthy(desk)).says("r1", healthy(desk))
    assert desk.told("r0") == [Halt("pause", save=True, generation=desk.active.number)]


def test_the_end_of_all_loops_is_seen_from_the_statuses():
    desk = Desk().running().restart()
    desk.says("r0", healthy(desk, finished=True)).says("r1", healthy(desk, finished=True))
    assert desk.phase is Phase.SUCCEEDED
