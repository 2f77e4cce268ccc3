"""What went wrong once on the master's side: each test tells how, and holds that it does not again."""

from __future__ import annotations

from dataclasses import replace

from elastic_sim.desk import MEMBER, NEWCOMER, Desk, slot
from raytide.elastic.effects import NeedSlots, StartReplica, StopReplica
from raytide.elastic.master import Tick
from raytide.elastic.messages import (
    Checkpoint,
    Committed,
    Demote,
    Diverged,
    Finished,
    GenerationFailed,
    Halt,
    Halted,
    Heartbeat,
    LoopRaised,
    Publish,
    Ready,
    Release,
    Resize,
    Resume,
    Save,
    Saved,
    SaveFailed,
    Stop,
    Suspend,
)
from raytide.elastic.model import Cost, Position, Transfer
from raytide.elastic.state import Phase

GROW = Resize("grow", add=(slot(7),))


def switching(desk: Desk | None = None) -> Desk:
    """Two members, and a newcomer r2 on its way in."""
    return (desk or Desk()).running().event(GROW).says("r2", Ready())


# --- state --------------------------------------------------------------------------------------


def test_initial_states_are_unlike_until_one_has_been_handed_out():
    """All first replicas said they had the state; after a failed first transfer each kept its own weights."""
    desk = Desk(replicas=3).everybody(Ready(), "r0", "r1", "r2").dies("r0")
    initial = replace(MEMBER, ready=True)
    desk.answer_fence(r1=initial, r2=initial)
    assert desk.active.transfers == (Transfer("r1", ("r2",)),)


def test_after_the_first_transfer_an_initial_state_counts_no_more():
    desk = Desk(replicas=3).everybody(Ready(), "r0", "r1", "r2").dies("r0")
    desk.answer_fence(r1=replace(MEMBER, ready=True), r2=replace(MEMBER, active=1))
    assert desk.active.transfers == (Transfer("r2", ("r1",)),)


def test_who_has_the_result_of_a_user_collective_is_ahead():
    """Equally many steps, yet one had the result and went on, the other asked for it, alone."""
    desk = Desk().running().says("r0", GenerationFailed(1, 10, "a user collective failed"))
    ahead = replace(MEMBER, active=1, applied=10, broken=True, collectives=1)
    desk.answer_fence(applied=10, r1=ahead)
    assert desk.active.transfers == (Transfer("r1", ("r0",)),)


def test_newcomers_left_alone_with_the_state_carry_on():
    """All old members died behind the transfer: leavers were thought the only holders of state."""
    desk = switching().dies("r0").dies("r1")
    desk.answer_fence(r2=replace(MEMBER, active=desk.pending.number, joined_at=10, applied=10))
    assert desk.active.members == ("r2",)
    assert not desk.active.paused


def test_a_switch_commits_unheard_and_its_survivor_goes_on_from_there():
    desk = switching().says("r0", GenerationFailed(2, 11, "peer closed"))
    committed = replace(MEMBER, active=desk.pending.number, joined_at=10, applied=11, broken=True)
    desk.answer_fence(applied=10, r2=committed)
    assert desk.active.members == ("r0", "r1", "r2")
    assert desk.active.transfers == (Transfer("r2", ("r0", "r1")),)


def test_an_answer_to_an_older_fence_is_refused():
    """A second failure during recovery: the first fence's answers say nothing about what came after it."""
    desk = Desk(replicas=3).running().dies("r2").answer_fence().says("r0", GenerationFailed(3, 10, "peer closed"))
    assert desk.master.state.fencing.number == 4
    desk.everybody(replace(MEMBER, fence=2, active=1, applied=9, broken=True), "r0", "r1")
    assert desk.phase is Phase.FENCING
    assert desk.answer_fence().phase is Phase.FORMING


def test_a_late_older_checkpoint_does_not_replace_a_newer_one():
    desk = Desk().running().event(Checkpoint("a")).event(Checkpoint("b"))
    desk.says("r0", Saved("b", "ck-9", Position(9)), Saved("a", "ck-5", Position(5)))
    assert desk.master.state.last_checkpoint == "ck-9"
    assert desk.answers["a"].path == "ck-5"


# --- too few are left ---------------------------------------------------------------------------


def test_too_few_survivors_pause_and_newcomers_join_by_a_switch():
    """Newcomers joined the recovery itself: at their boundary, while survivors stood in a user collective."""
    desk = Desk(low=2).running().dies("r1").answer_fence()
    assert (desk.active.members, desk.active.paused) == (("r0",), True)
    desk.adopted().slots(4).says("r2", Ready())
    assert (desk.pending.members, desk.pending.planned, desk.pending.paused) == (("r0", "r2"), True, False)
    assert desk.committed().phase is Phase.RUNNING


def test_a_paused_job_does_not_wait_for_the_last_replacement():
    desk = Desk(replicas=4, low=2).running().dies("r1", "r2", "r3").answer_fence().adopted()
    desk.slots(4, 5, 6).says("r5", Ready())
    assert desk.pending.members == ("r0", "r5")


def test_slots_are_asked_for_until_they_are_there():
    """Fewer slots came than were asked for; nobody asked again, and the pause had no end."""
    desk = Desk(replicas=3, low=3).running().dies("r1", "r2").answer_fence().adopted()
    assert [n.count for n in desk.found(NeedSlots)] == [2]
    desk.slots(5)
    desk.wait(1.0)
    assert [n.count for n in desk.found(NeedSlots)] == [1]
    desk.slots().wait(1.0)
    assert [n.count for n in desk.found(NeedSlots)] == [1]


def test_a_late_offer_of_an_occupied_slot_is_no_offer():
    """A user had taken the slot meanwhile: two replicas were to start on it."""
    desk = Desk(replicas=2).running().dies("r1").answer_fence().adopted()
    desk.event(Resize("grow", add=(slot(5),))).slots(5)
    assert not desk.found(StartReplica)


def test_nobody_can_be_spared_before_the_lost_are_replaced():
    desk = Desk(replicas=3, low=2).running().dies("r2").answer_fence().adopted()
    assert "outside num_workers" in desk.event(Resize("x", remove=("r1",))).answers["x"].error


def test_a_loss_after_a_scale_in_was_accepted_does_not_undercut_the_minimum():
    desk = Desk(replicas=3, low=2).running().event(Resize("shrink", remove=("r0",))).dies("r1")
    desk.answer_fence().adopted()
    assert (desk.phase, desk.active.members) == (Phase.RUNNING, ("r0", "r2"))
    assert desk.slots(5).says("r3", Ready()).pending.members == ("r2", "r3")
    assert desk.committed().answers["shrink"].error == ""


# --- requests -----------------------------------------------------------------------------------


def test_a_resize_in_a_failed_switch_is_not_done():
    """The version of the target once published counted as reached, though the switch had failed."""
    desk = switching().says("r0", GenerationFailed(2, 10, "no")).answer_fence(r2=NEWCOMER).adopted()
    assert desk.phase is Phase.RUNNING
    assert not desk.answers


def test_a_newcomer_taken_out_during_its_own_switch():
    """Its switch failed afterwards: it was in no target and no generation, and lived on unnoticed."""
    desk = switching().event(Resize("undo", remove=("r2",))).says("r0", GenerationFailed(2, 10, "no"))
    desk.answer_fence(r2=NEWCOMER).adopted()
    assert set(desk.master.state.replicas) == {"r0", "r1"}
    assert set(desk.answers) == {"grow", "undo"}


def test_the_loss_of_a_newcomer_whose_switch_had_committed_unheard_brings_no_leaver_back():
    """Its migration was undone although it had happened: one replica more than wanted, and than allowed."""
    desk = Desk(high=2).running().event(Resize("move", add=(slot(5), slot(6)), remove=("r0", "r1")))
    desk.everybody(Ready(), "r2", "r3").dies("r3")
    committed = replace(MEMBER, active=desk.pending.number, joined_at=10, applied=11)
    desk.answer_fence(applied=10, r2=committed)
    assert desk.active.members == ("r2",)
    assert desk.target == {"r2"}


def test_a_migration_keeps_its_leaver_where_its_newcomer_is_lost():
    desk = Desk().running().event(Resize("move", add=(slot(5),), remove=("r0",))).dies("r2")
    assert desk.target == {"r0", "r1"}
    assert "r2 was lost before it joined" in desk.answers["move"].error


def test_a_migration_of_two_that_loses_one_newcomer_moves_the_other():
    """Both leavers left for one newcomer: fewer replicas than the minimum."""
    desk = Desk(low=2).running().event(Resize("move", add=(slot(5), slot(6)), remove=("r0", "r1"))).dies("r2")
    desk.says("r3", Ready())
    assert desk.pending.world_size == 2
    assert "r2 was lost" in desk.committed().answers["move"].error


def test_a_newcomer_that_dies_after_publication_takes_its_switch_along():
    desk = switching().dies("r2")
    assert desk.phase is Phase.FENCING
    assert desk.answer_fence().active.members == ("r0", "r1")
    assert "lost before it joined" in desk.answers["grow"].error


def test_a_newcomer_that_raises_after_publication_takes_its_switch_along():
    """It was dropped without a fence, and the members waited for its connection until their limit."""
    desk = switching().says("r2", LoopRaised("KeyError"))
    assert desk.phase is Phase.FENCING


def test_a_full_swap_goes_through_the_newcomers():
    desk = Desk().running().event(Resize("move", add=(slot(5), slot(6)), remove=("r0", "r1")))
    desk.everybody(Ready(), "r2", "r3")
    assert desk.pending.transfers == (Transfer("r0", ("r2",)), Transfer("r1", ("r3",)))
    desk.committed()
    assert [s.replica for s in desk.found(StopReplica)] == ["r0", "r1"]


def test_a_newcomer_lost_before_it_joined_is_not_replaced():
    """Its request has failed: what its user asked for next would have come on top."""
    desk = Desk().running().event(GROW).dies("r2")
    assert "lost before it joined" in desk.answers["grow"].error
    assert not desk.found(NeedSlots)
    assert desk.master.state.size == 2


# --- halts --------------------------------------------------------------------------------------


def test_a_suspension_during_a_switch_waits_for_it():
    desk = switching().event(Suspend("pause"))
    assert desk.told("r0") == []
    desk.committed()
    assert desk.told("r2") == [Halt("pause", save=True, generation=desk.active.number)]


def test_a_job_about_to_halt_does_not_switch():
    """Some members halted at the boundary at which others adopted a new generation."""
    desk = Desk().running().event(GROW).event(Suspend("pause")).says("r2", Ready())
    assert desk.phase is Phase.RUNNING


def test_a_report_of_an_older_generation_does_not_halt_the_job():
    """The halt was broken off by a failure and steps followed; the late report threw them away."""
    desk = Desk(replicas=3).running().event(Suspend("pause")).dies("r2").answer_fence().adopted()
    desk.says("r0", Halted("pause", Position(5), "ck-5", generation=1))
    assert desk.phase is Phase.RUNNING
    assert desk.says("r0", Halted("pause", Position(9), "ck-9", generation=desk.active.number)).phase is Phase.SUSPENDED


def test_a_halt_reported_during_a_fence_is_done_again():
    """It suspended a job that was fencing, which was not a legal change."""
    desk = Desk(replicas=3).running().event(Suspend("pause")).dies("r2")
    assert desk.says("r0", Halted("pause", Position(5), "ck-5", generation=1)).phase is Phase.FENCING
    desk.answer_fence().adopted()
    assert desk.told("r0") == [Halt("pause", save=True, generation=desk.active.number)]


def test_rank_0_dies_while_it_saves():
    desk = Desk(replicas=3).running().event(Suspend("pause")).dies("r0").answer_fence().adopted()
    assert desk.told("r1") == [Halt("pause", save=True, generation=desk.active.number)]
    desk.says("r1", Halted("pause", Position(9), "ck-9", generation=desk.active.number))
    assert desk.answers["pause"].path == "ck-9"


def test_a_failed_save_calls_the_halt_off_and_training_goes_on():
    desk = Desk().running().event(Suspend("pause")).says("r0", SaveFailed("pause", "disk full"))
    assert desk.answers["pause"].error == "disk full"
    desk.answer_fence().adopted()
    assert (desk.phase, desk.told("r0")) == (Phase.RUNNING, [])


def test_a_restart_from_the_checkpoint_completes_a_suspension():
    """Nothing newer than the checkpoint was left to save, and nobody to say that it had been saved."""
    desk = Desk().running().event(Suspend("pause")).dies("r0", "r1")
    assert desk.phase is Phase.SUSPENDED
    assert desk.answers["pause"].error == ""


def test_stop_and_suspend_together_stop():
    desk = Desk().running().event(Suspend("pause")).event(Stop("end"))
    desk.says("r0", Halted("pause", Position(5), "ck-5", generation=1))
    assert desk.phase is Phase.STOPPED
    assert desk.answers["end"].path == "ck-5"
    assert set(desk.answers) == {"pause", "end"}


def test_a_checkpoint_asked_of_a_rank_0_that_is_gone_is_asked_of_the_next():
    desk = Desk().running().event(Checkpoint("save")).dies("r0").answer_fence().adopted()
    assert desk.told("r1") == [Save("save")]


# --- the end ------------------------------------------------------------------------------------


def test_the_new_members_finish_before_their_commit_is_heard():
    """Only the old members were looked at, and these, having left, never finish."""
    desk = Desk().running().event(Resize("shrink", remove=("r1",))).says("r0", Finished(20))
    assert desk.says("r0", Committed(desk.pending.number, 20)).phase is Phase.SUCCEEDED


def test_a_finished_member_is_the_source_for_one_that_missed_the_last_step():
    desk = Desk().running().says("r0", Finished(20)).says("r1", GenerationFailed(1, 19, "peer closed"))
    done = replace(MEMBER, active=1, applied=20, broken=True, finished=True)
    desk.answer_fence(applied=19, r0=done)
    assert desk.active.transfers == (Transfer("r0", ("r1",)),)
    assert desk.adopted().says("r1", Finished(20)).phase is Phase.SUCCEEDED


def test_the_last_unfinished_member_dies():
    desk = Desk().running().says("r0", Finished(20)).dies("r1")
    desk.answer_fence(r0=replace(MEMBER, active=1, applied=20, broken=True, finished=True))
    assert desk.phase is Phase.SUCCEEDED


def test_success_is_not_turned_into_failure_by_the_budget():
    """The loss that left only finished members was also one too many."""
    desk = Desk(max_failures=0).running().says("r0", Finished(20)).says("r1", Finished(20))
    assert desk.dies("r1").phase is Phase.SUCCEEDED


def test_a_member_that_was_given_up_wakes():
    """Nobody answered it, and it kept its slot."""
    desk = Desk().running().dies("r1").says("r1", Heartbeat(1, Position(3), "step"))
    assert [type(m) for m in desk.told("r1")] == [Release]
    assert desk.phase is Phase.FENCING


def test_an_exception_of_user_code_while_running_restarts_the_job():
    """Starting after running was not a legal change."""
    desk = Desk(max_user_errors=1).running().says("r0", LoopRaised("ValueError"))
    assert desk.phase is Phase.STARTING
    assert [n.count for n in desk.found(NeedSlots)] == [2]


def test_a_divergence_announced_before_a_recovery_is_not_held_against_the_next_generation():
    desk = Desk(replicas=3).running().says("r0", Diverged(1, Position(5), "validation")).dies("r2")
    desk.answer_fence().adopted().wait(0.5).wait(2.0)
    assert desk.phase is Phase.RUNNING


def test_a_resumed_job_starts_from_scratch_but_for_the_checkpoint():
    desk = Desk().running().event(Suspend("pause")).says("r0", Halted("pause", Position(5), "ck-5", generation=1))
    desk.event(Resume("again", (slot(0), slot(1)))).everybody(Ready(), "r2", "r3")
    assert desk.told("r3") == [Publish(desk.active)]
    assert desk.active.transfers == (Transfer("r2", ("r3",)),)


def test_members_outside_the_recovered_generation_are_demoted_and_released():
    desk = Desk().running().event(Resize("shrink", remove=("r1",)))
    new = desk.pending.number
    desk.says("r0", GenerationFailed(new, 11, "?"))
    desk.answer_fence(applied=10, r0=replace(MEMBER, active=new, joined_at=10, applied=12, broken=True))
    assert [type(m) for m in desk.told("r1")] == [Demote]
    desk.adopted()
    assert [type(m) for m in desk.told("r1")] == [Release]


# --- found in a review ---------------------------------------------------------------------------


def test_a_replica_that_beats_but_does_not_answer_a_fence_is_given_up():
    """One was stuck inside a kernel with a living heart: the job stayed fenced for ever."""
    desk = Desk(replicas=3).running().dies("r2")
    number = desk.master.state.fencing.number
    desk.says("r0", replace(MEMBER, active=1, applied=10, broken=True, fence=number))
    began_s = desk.now
    while desk.phase is Phase.FENCING and desk.now < began_s + 100.0:
        desk.everybody(Heartbeat(1, Position(5), "step 5"), "r0", "r1").event(Tick())
        desk.now -= 2.0  # the three of them within one second
    assert 55.0 < desk.now - began_s < 65.0
    assert desk.active.members == ("r0",)
    assert "r1" not in desk.master.state.replicas


def test_a_checkpoint_of_a_leaver_is_remembered():
    """Rank 0 left while its checkpoint was written: the checkpoint was complete, and forgotten."""
    desk = switching().event(Resize("shrink", remove=("r0",)))
    desk.committed().says("r1", Ready())
    desk = desk if "r0" not in desk.master.state.replicas else desk.committed(11)
    assert "r0" not in desk.master.state.replicas
    desk.says("r0", Saved("", "store/step-9", Position(9), Cost()))
    assert desk.master.state.last_checkpoint == "store/step-9"


def test_a_divergence_of_an_older_generation_is_no_news():
    """Said while the fence was on its way: it failed the job a second into the next generation."""
    desk = Desk(replicas=3).running().dies("r2").answer_fence().adopted()
    desk.says("r0", Diverged(1, Position(5), "validation"))
    for _ in range(20):
        desk.everybody(Heartbeat(desk.active.number, Position(10), "step 10"), "r0", "r1").event(Tick())
    assert desk.phase is Phase.RUNNING


def test_the_loss_of_a_newcomer_is_no_fault_of_the_generation():
    """The next planned growth, an hour later, was reported as a recovery of an hour."""
    desk = Desk().running().event(GROW).dies("r2")
    assert desk.phase is Phase.RUNNING
    assert not desk.master.state.fault_s
