"""Replicas that die or freeze at a planned rank and step of a real job; each test proves that it happened."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from raytide.errors import JobFailed, LoopError, RequestRefused
from raytide.train import FailureConfig
from support import loops
from support.cluster import TestCluster
from support.ray_jobs import (
    assert_as_fixed_size,
    assert_samples_once,
    fired,
    running,
    story,
    wait,
    wait_size,
    wait_step,
)


@pytest.mark.parametrize("rank", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_kill_of_any_rank_loses_nothing(cluster: TestCluster, tmp_path: Path, rank: int) -> None:
    """A lost worker is noticed at once by everybody, rank 0 (where others keep their store) included."""
    plan = {"kind": "kill", "rank": rank, "step": 5}
    with running(tmp_path, start=3, config={"fault": plan}) as job:
        view = wait_step(job, 7)
        assert fired(tmp_path, "kill")
        lost = [e for e in view.events if e.kind == "lost"]
        assert len(lost) == 1
        recovered = [e for e in view.events if e.kind == "generation" and e.data["recovery_s"]]
        assert 0 < recovered[0].data["recovery_s"] < 5.0, story(job)
        assert_as_fixed_size(tmp_path, job)


def test_kill_between_backward_and_step(cluster: TestCluster, tmp_path: Path) -> None:
    """The gradients were reduced, the dead rank never applied them: nobody applies the step twice."""
    plan = {"kind": "kill_before_step", "rank": 1, "step": 4}
    with running(tmp_path, start=3, config={"fault": plan}) as job:
        wait_step(job, 6)
        assert fired(tmp_path, "kill_before_step")
        assert_as_fixed_size(tmp_path, job)


def test_kill_in_the_last_step_of_an_epoch(cluster: TestCluster, tmp_path: Path) -> None:
    """The last, incomplete step has fewer samples than replicas, and a rank dies in it."""
    last = -(-loops.SAMPLES // loops.BATCH) - 1
    plan = {"kind": "kill", "rank": 1, "step": last}
    with running(tmp_path, start=3, config={"fault": plan}) as job:
        wait_step(job, last + 2)
        assert fired(tmp_path, "kill")
        assert_as_fixed_size(tmp_path, job)


def test_frozen_replica_is_left_behind_and_harmless(cluster: TestCluster, tmp_path: Path) -> None:
    """A stopped process holds nobody up for longer than the limit, and changes nothing when it wakes."""
    plan = {"kind": "freeze", "rank": 1, "step": 5}
    with running(tmp_path, start=3, config={"fault": plan}) as job:
        wait(job, lambda view: fired(tmp_path, "freeze"), "the freeze")
        frozen_s = time.monotonic()
        wait_step(job, 7)
        assert time.monotonic() - frozen_s < 8.0, story(job)
        pid = int(next(tmp_path.glob("fault-freeze-*")).read_text())
        with contextlib.suppress(ProcessLookupError):  # its slot may be gone, and the process with it
            os.kill(pid, signal.SIGCONT)
        assert_as_fixed_size(tmp_path, job)


def test_lost_replica_is_replaced(cluster: TestCluster, tmp_path: Path) -> None:
    """The job returns to its size by itself."""
    plan = {"kind": "kill", "rank": 1, "step": 2}
    with running(tmp_path, start=2, config={"fault": plan}) as job:
        wait(job, lambda view: any(e.kind == "lost" for e in view.events), "the loss")
        wait_size(job, 2)
        assert fired(tmp_path, "kill")
        assert_as_fixed_size(tmp_path, job)


def test_below_the_minimum_the_job_pauses_and_resumes(cluster: TestCluster, tmp_path: Path) -> None:
    """With too few replicas left nobody trains; the newcomer gets the survivor's state, not a checkpoint's."""
    plan = {"kind": "kill", "rank": 1, "step": 5}
    with running(tmp_path, start=2, workers=(2, 3), config={"fault": plan}) as job:
        wait_step(job, 8)
        assert fired(tmp_path, "kill")
        assert not any(e.kind == "restart" for e in job.view().events)
        assert_as_fixed_size(tmp_path, job)


def test_all_replicas_lost_restarts_from_the_checkpoint(cluster: TestCluster, tmp_path: Path) -> None:
    """Nobody is left: the job goes on from its last checkpoint, with its cursor."""
    with running(tmp_path, start=2, config={"save": True}) as job:
        wait(job, lambda view: bool(view.checkpoint) and view.step > 9, "a checkpoint")
        for member in job.view().members:
            os.kill(member.pid, signal.SIGKILL)
        wait(job, lambda view: any(e.kind == "restart" for e in view.events), "the restart")
        (tmp_path / "go").touch()
        result = job.result(timeout_s=90)
        assert result.status == "succeeded"
        weights = sorted(tmp_path.glob("rank*.pt"))
        assert weights


@pytest.mark.slow
def test_second_loss_during_recovery(cluster: TestCluster, tmp_path: Path) -> None:
    """Two of four die within milliseconds: one recovery interrupts the other."""
    with running(tmp_path, start=4) as job:
        members = {m.rank: m.pid for m in wait_step(job, 3).members}
        os.kill(members[1], signal.SIGKILL)
        time.sleep(0.03)
        os.kill(members[0], signal.SIGKILL)
        wait(job, lambda view: sum(e.kind == "lost" for e in view.events) == 2, "both losses")
        assert_as_fixed_size(tmp_path, job)


def test_exception_of_the_user_ends_the_job_with_rank_and_traceback(cluster: TestCluster, tmp_path: Path) -> None:
    """Not a hang, and not retried as if a node had been lost."""
    plan = {"kind": "raise", "rank": 1, "step": 3}
    with running(tmp_path, start=2, config={"fault": plan}) as job:
        with pytest.raises(LoopError, match="ZeroDivisionError: a mistake of the user") as caught:
            job.result(timeout_s=60)
        assert caught.value.rank == 1
        assert fired(tmp_path, "raise")


def test_break_on_one_rank_fails_naming_the_ranks(cluster: TestCluster, tmp_path: Path) -> None:
    """Ranks whose programs part cannot train together; the job says who is where instead of hanging."""
    plan = {"kind": "break", "rank": 1, "step": 3}
    with running(tmp_path, start=2, config={"fault": plan}) as job:
        with pytest.raises(JobFailed, match=r"the ranks have parted .*rank 0 is .*rank 1 is"):
            job.result(timeout_s=60)
        assert fired(tmp_path, "break")


def test_too_many_losses_fail_the_job(cluster: TestCluster, tmp_path: Path) -> None:
    """The budget of losses is a limit."""
    plan = {"kind": "kill", "rank": 1, "step": 3}
    budget = FailureConfig(max_failures=0)
    with running(tmp_path, start=2, config={"fault": plan}, failures=budget) as job:
        with pytest.raises(JobFailed, match="max_failures=0"):
            job.result(timeout_s=60)
        assert fired(tmp_path, "kill")


def test_node_lost_with_its_replicas_and_used_again(cluster: TestCluster, tmp_path: Path) -> None:
    """A whole node goes, the job goes on; the host comes back and is not avoided for having failed once."""
    node = cluster.add_node("node-c", slots=1)
    with running(tmp_path, start=1) as job:
        wait_step(job, 1)
        job.scale_out(slots=["node-c"])
        cluster.kill_node(node)
        wait(job, lambda view: any(e.kind == "lost" for e in view.events), "the loss")
        again = cluster.add_node("node-c", slots=1)
        here = {m.node for m in job.view().members if m.rank >= 0}
        assert node.node_id not in here or job.view().world_size == 1
        wait_size(job, 2)  # replaced on whatever slot was free
        wait(job, lambda _: not cluster.is_alive(node), "Ray to know of the loss")  # two would have one name
        job.scale_out(slots=["node-c"])
        assert again.node_id in {m.node for m in job.view().members}
        assert_as_fixed_size(tmp_path, job)
    cluster.kill_node(again)


@pytest.mark.slow
def test_transfer_that_fails_half_way(cluster: TestCluster, tmp_path: Path) -> None:
    """The newcomer dies while its state arrives: the old members go on, and the job still grows later."""
    with running(tmp_path, start=2, loop=loops.wounded_transfer) as job:
        wait_step(job, 1)
        first_error = ""
        try:
            job.scale_out(1)
        except RequestRefused as error:
            first_error = str(error)
        assert fired(tmp_path, "transfer"), first_error
        wait(job, lambda view: view.phase == "running" and view.world_size >= 2, "training to go on")
        assert_as_fixed_size(tmp_path, job)
        assert_samples_once(tmp_path)
