"""The normal paths of a job, phase by phase."""

from __future__ import annotations

import pytest

from elastic_sim.desk import MEMBER, NEWCOMER, Desk, slot
from raytide.elastic.effects import EndJob, NeedSlots, StartReplica, StopReplica
from raytide.elastic.messages import (
    Checkpoint,
    Demote,
    Fence,
    Finished,
    GenerationFailed,
    Halt,
    Halted,
    LoopRaised,
    Publish,
    Ready,
    Release,
    Resize,
    Resume,
    Save,
    Saved,
    Status,
    Stop,
    Suspend,
)
from raytide.elastic.model import Position, Transfer
from raytide.elastic.state import PHASE_EDGES, Phase

OUT = Resize("grow", add=(slot(2),))
SCENES = {
    "all but one are ready": (lambda d: d.says("r0", Ready()), Phase.STARTING),
    "all are ready": (lambda d: d.everybody(Ready(), "r0", "r1"), Phase.FORMING),
    "all have adopted": (lambda d: d.running(), Phase.RUNNING),
    "a newcomer starts": (lambda d: d.running().event(OUT), Phase.RUNNING),
    "the newcomer is ready": (lambda d: d.running().event(OUT).says("r2", Ready()), Phase.SWITCHING),
    "the switch commits": (lambda d: d.running().event(OUT).says("r2", Ready()).committed(), Phase.RUNNING),
    "one leaves": (lambda d: d.running().event(Resize("shrink", remove=("r0",))), Phase.SWITCHING),
    "a member dies": (lambda d: d.running().dies("r1"), Phase.FENCING),
    "survivors answer": (lambda d: d.running().dies("r1").answer_fence(), Phase.FORMING),
    "survivors adopt": (lambda d: d.running().dies("r1").answer_fence().adopted(), Phase.RUNNING),
    "nobody is left": (lambda d: d.running().dies("r1", "r0"), Phase.STARTING),
    "the master restarts": (lambda d: d.running().restart(), Phase.ADOPTING),
    "all loops return": (lambda d: d.running().finished(), Phase.SUCCEEDED),
    "one loop returns": (lambda d: d.running().says("r0", Finished(20)), Phase.RUNNING),
    "a loop raises": (lambda d: d.running().says("r0", LoopRaised("ValueError")), Phase.FAILED),
    "stopped before it began": (lambda d: d.event(Stop("s")), Phase.STOPPED),
    "suspended before it began": (lambda d: d.event(Suspend("s")), Phase.SUSPENDED),
    "told to halt": (lambda d: d.running().event(Suspend("s")), Phase.RUNNING),
}


@pytest.mark.parametrize(("scene", "phase"), SCENES.values(), ids=SCENES)
def test_phase_after(scene, phase):
    assert scene(Desk(replicas=2)).phase is phase


def test_every_phase_has_its_edges_and_ends_have_none():
    assert set(PHASE_EDGES) == set(Phase)
    assert [p for p in Phase if not PHASE_EDGES[p]] == [Phase.SUCCEEDED, Phase.STOPPED, Phase.FAILED]


def test_an_illegal_change_of_phase_is_refused():
    with pytest.raises(AssertionError, match="starting -> switching"):
        Desk().master.go(Phase.SWITCHING)


def test_the_first_generation_takes_the_initial_state_of_one():
    desk = Desk(replicas=3).everybody(Ready(), "r2", "r0", "r1")
    assert desk.active.transfers == (Transfer("r0", ("r1", "r2")),)
    assert desk.told("r1") == [Publish(desk.active)]


def test_scale_out_is_answered_when_the_switch_has_committed():
    desk = Desk().running().event(Resize("grow", add=(slot(2), slot(3))))
    assert [s.replica for s in desk.found(StartReplica)] == ["r2", "r3"]
    assert desk.says("r2", Ready()).phase is Phase.RUNNING
    desk.says("r3", Ready())
    assert desk.pending.members == ("r0", "r1", "r2", "r3")
    assert desk.pending.planned
    assert not desk.answers
    assert desk.committed().answers["grow"].world_size == 4


def test_leavers_hand_over_and_are_released_when_the_switch_has_committed():
    desk = Desk().running().event(Resize("move", add=(slot(2),), remove=("r0",))).says("r2", Ready())
    assert desk.pending.transfers == (Transfer("r0", ("r2",)),)
    desk.committed()
    assert desk.told("r0") == [Release("left the job")]
    assert desk.found(StopReplica) == [StopReplica("r0", "left the job")]
    assert desk.answers["move"].error == ""


def test_requests_during_a_switch_are_met_by_the_next_one():
    desk = Desk().running().event(OUT).says("r2", Ready()).event(Resize("shrink", remove=("r1",)))
    assert desk.phase is Phase.SWITCHING
    desk.committed()
    assert set(desk.answers) == {"grow"}
    assert desk.pending.members == ("r0", "r2")
    assert set(desk.committed().answers) == {"grow", "shrink"}


def test_survivors_form_around_the_most_advanced():
    desk = Desk(replicas=3).running().dies("r0")
    assert desk.told("r1") == [Fence(desk.master.state.fencing.number)]
    behind = Status(0, desk.active.number, 0, 9, True, True, 0, False, False)
    desk.answer_fence(applied=10, r1=behind)
    assert desk.active.members == ("r1", "r2")
    assert desk.active.transfers == (Transfer("r2", ("r1",)),)
    assert not desk.active.planned


def test_a_failed_switch_goes_on_with_the_old_members():
    desk = Desk().running().event(OUT).says("r2", Ready())
    failed = desk.pending.number
    desk.says("r0", GenerationFailed(failed, 10, "a transfer failed"))
    desk.answer_fence(r2=NEWCOMER)
    assert desk.active.members == ("r0", "r1")
    assert "r2" in desk.target
    assert not desk.answers
    desk.adopted()
    assert desk.says("r2", Ready()).pending.members == ("r0", "r1", "r2")
    assert desk.committed().answers["grow"].error == ""


def test_a_lost_replica_is_replaced():
    desk = Desk().running().dies("r1").answer_fence().adopted()
    assert [n.count for n in desk.found(NeedSlots)] == [1]
    desk.slots(5).says("r2", Ready()).committed()
    assert desk.active.members == ("r0", "r2")


def test_lost_replicas_are_not_replaced_where_this_is_not_wanted():
    desk = Desk(replace_lost=False).running().dies("r1").answer_fence().adopted()
    assert desk.phase is Phase.RUNNING
    assert not desk.found(NeedSlots)


def test_suspend_and_resume():
    desk = Desk().running().event(Suspend("pause"))
    halt = Halt("pause", save=True, generation=desk.active.number)
    assert desk.told("r0") == desk.told("r1") == [halt]
    desk.says("r0", Halted("pause", Position(7), "ck-7", generation=desk.active.number))
    assert desk.phase is Phase.SUSPENDED
    assert desk.answers["pause"].path == "ck-7"
    assert not desk.master.state.replicas
    desk.event(Resume("again", (slot(4), slot(5), slot(6))))
    assert [(s.initial, s.checkpoint) for s in desk.found(StartReplica)] == [(True, "ck-7")] * 3
    desk.running()
    assert desk.answers["again"].world_size == 3


def test_stop_ends_the_job_with_a_checkpoint():
    desk = Desk().running().event(Stop("end")).says("r0", Halted("end", Position(7), "ck-7", generation=1))
    assert desk.found(EndJob) == [EndJob(Phase.STOPPED)]
    assert desk.answers["end"].path == "ck-7"


def test_checkpoint_is_asked_of_rank_0_and_answered():
    desk = Desk().running().event(Checkpoint("save"))
    assert (desk.told("r0"), desk.told("r1")) == ([Save("save")], [])
    assert desk.says("r0", Saved("save", "ck-3", Position(3))).answers["save"].path == "ck-3"


def test_nobody_left_starts_again_from_the_checkpoint():
    desk = Desk().running().event(Checkpoint("save")).says("r0", Saved("save", "ck-3", Position(3)))
    desk.dies("r1", "r0").slots(0, 1)
    assert [(s.initial, s.checkpoint) for s in desk.found(StartReplica)] == [(True, "ck-3")] * 2


def test_losses_and_errors_of_users_have_budgets_of_their_own():
    desk = Desk(max_failures=1, max_user_errors=1).running().says("r0", LoopRaised("ValueError"))
    assert desk.phase is Phase.STARTING
    desk.slots(0, 1).running().dies("r2")
    assert desk.phase is Phase.FENCING
    assert desk.dies("r3").phase is Phase.FAILED


def test_a_newcomer_that_raises_fails_its_request_only():
    desk = Desk().running().event(OUT).says("r2", LoopRaised("ImportError"))
    assert desk.phase is Phase.RUNNING
    assert "ImportError" in desk.answers["grow"].error


def test_an_adopted_healthy_job_goes_on_without_a_fence():
    desk = Desk().running().restart()
    status = Status(0, desk.active.number, 0, 30, True, False, 0, False, False)
    desk.says("r0", status).says("r1", status)
    assert desk.phase is Phase.RUNNING
    assert desk.active.number == 1


REFUSED = {
    "too many": (Resize("x", add=tuple(slot(i) for i in range(2, 12))), "outside num_workers"),
    "too few": (Resize("x", remove=("r0", "r1")), "outside num_workers"),
    "unknown replica": (Resize("x", remove=("r9",)), "r9: not a replica"),
    "named twice": (Resize("x", remove=("r0", "r0")), "not a replica of this job, or already leaving"),
    "occupied slot": (Resize("x", add=(slot(0),)), "one replica per slot"),
    "not suspended": (Resume("x", (slot(0),)), "not suspended"),
}


@pytest.mark.parametrize(("request_", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(request_, reason):
    assert reason in Desk().running().event(request_).answers["x"].error


def test_a_demoted_newcomer_is_told_and_published_again():
    desk = Desk().running().event(OUT).says("r2", Ready()).dies("r1")
    adopted = Status(0, desk.pending.number, 10, 10, True, True, 0, False, False)
    number = desk.master.state.fencing.number
    desk.says("r2", Status(number, *list(vars(adopted).values())[1:9]))
    desk.answer_fence()
    assert desk.told("r2") == [Demote(number)]
    assert MEMBER.has_state
