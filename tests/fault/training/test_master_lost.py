"""The master is killed at each point of a resize: training goes on, and the request is answered once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import ray

from raytide.actors.client import RayJobHandle
from raytide.actors.views import JobView
from raytide.cli.traces import read_steps
from raytide.train import RequestCost
from support.cluster import TestCluster
from support.ray_jobs import assert_as_fixed_size, running, wait, wait_size, wait_step

MOMENTS: dict[str, Callable[[JobView], bool]] = {
    "preparing": lambda view: any(e.kind == "request" for e in view.events),
    "switching": lambda view: view.phase == "switching",
    "switched": lambda view: view.world_size == 2 and view.phase == "running",
}


def kill_master(job: RayJobHandle) -> int:
    """Kill the master's process; returns its id."""
    pid: int = ray.get(job.master.pid.remote())
    os.kill(pid, signal.SIGKILL)
    return pid


def test_training_goes_on_without_its_master(cluster: TestCluster, tmp_path: Path) -> None:
    """No step waits for a master: steps are applied while none lives."""
    with running(tmp_path, start=2, config={"epochs": 4000, "sleep_s": 0.05}) as job:
        wait_step(job, 5)
        first = kill_master(job)
        killed_s = time.time()
        second = ray.get(job.master.pid.remote())
        back_s = time.time()
        assert second != first
        meanwhile = [s for s in read_steps(tmp_path / "trace") if killed_s + 0.1 < s.time_s < back_s]
        assert len(meanwhile) >= 3, f"{len(meanwhile)} steps in the {back_s - killed_s:.1f} s without a master"
        wait_size(job, 2)
        job.stop()
        assert job.result().status == "stopped"


@pytest.mark.parametrize("moment", MOMENTS)
def test_master_killed_during_a_resize(cluster: TestCluster, tmp_path: Path, moment: str) -> None:
    """The resize ends as it was asked for, whoever answers."""
    answers: list[RequestCost] = []
    with running(tmp_path) as job:
        wait_step(job, 1)
        asking = threading.Thread(target=lambda: answers.append(job.scale_out(1)))
        asking.start()
        wait(job, MOMENTS[moment], moment)
        kill_master(job)
        asking.join(90)
        assert not asking.is_alive()
        assert [a.world_size for a in answers] == [2]
        wait_size(job, 2)
        assert_as_fixed_size(tmp_path, job)


def test_replica_lost_while_the_master_is_away(cluster: TestCluster, tmp_path: Path) -> None:
    """Two failures at once: the next master finds the generation incomplete and recovers it."""
    with running(tmp_path, start=3) as job:
        members = {m.rank: m.pid for m in wait_step(job, 3).members}
        kill_master(job)
        os.kill(members[1], signal.SIGKILL)
        wait(job, lambda view: view.phase == "running" and view.step > 6, "steps after both losses")
        assert_as_fixed_size(tmp_path, job)
