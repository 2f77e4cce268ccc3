"""Silence and divergence, from heartbeats."""

from __future__ import annotations

from elastic_sim.desk import Desk
from raytide.elastic.messages import Diverged, Finished, Heartbeat
from raytide.elastic.model import Position
from raytide.elastic.state import Phase


def beat(desk: Desk, replica: str, place: str = "step", waiting_for: str = "", step: int = 5) -> None:
    desk.says(replica, Heartbeat(desk.active.number, Position(step), place, waiting_for))


def test_silence_counts_as_death():
    desk = Desk().running()
    for _ in range(6):
        beat(desk, "r0")
        desk.wait(0.0)
    assert desk.phase is Phase.FENCING
    assert set(desk.master.state.replicas) == {"r0"}


def test_a_master_that_slept_blames_nobody():
    desk = Desk().running().wait(0.0).wait(60.0)
    assert desk.phase is Phase.RUNNING


def test_a_member_waiting_for_one_that_has_finished_has_parted():
    desk = Desk().running().says("r0", Finished(5))
    for _ in range(8):
        beat(desk, "r1", waiting_for="gradients")
        beat(desk, "r0", place="finished")
        desk.wait(0.0)
    assert desk.phase is Phase.FAILED
    assert "rank 0 is finished after step 5; rank 1 is at step, waiting for gradients" in desk.master.state.error


def test_members_that_wait_for_the_same_are_together():
    desk = Desk().running()
    for _ in range(8):
        for replica in ("r0", "r1"):
            beat(desk, replica, waiting_for="gradients")
        desk.wait(0.0)
    assert desk.phase is Phase.RUNNING


def test_an_announced_divergence_names_the_places():
    desk = Desk().running().says("r0", Diverged(1, Position(5), "validation"))
    beat(desk, "r1", place="step")
    desk.wait(2.0)
    assert desk.phase is Phase.FAILED
    assert "validation" in desk.master.state.error
