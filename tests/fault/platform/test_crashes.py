"""The scheduler killed, and nodes lost, under jobs that train."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from raytide.actors.client import find_job
from raytide.core import Tenant
from raytide.state import StoredTenant
from raytide.submission.access import make_token
from support import loops, ray_jobs
from support.platform import go, kill_scheduler, running_platform, submit, trains, until


def pids(name: str) -> list[int]:
    """Processes of a job, in rank order."""
    return [member.pid for member in find_job(name).view().members]


def test_jobs_go_on_without_their_scheduler(cluster, tmp_path):
    with running_platform(tmp_path, policy="fifo") as platform:
        platform.put_tenant(StoredTenant(Tenant("lab", limit_gpus=2)))
        submit(platform, tmp_path, "a", 2, tenant="lab")
        submit(platform, tmp_path, "waits", 1, tenant="lab")
        trains(platform, "a", 2)
        before, processes = platform.info(), pids("a")
        kill_scheduler(platform)
        after = platform.info()
        assert after.incarnation == before.incarnation + 1
        assert {job.job: job.state for job in after.jobs} == {"a": "running", "waits": "pending"}
        trains(platform, "a", 2)
        assert pids("a") == processes  # the same ones: nothing ran twice
        kill_scheduler(platform)
        go(tmp_path, "a")  # it ends while nobody schedules
        go(tmp_path, "waits")
        assert platform.wait("a", 60.0).state == "succeeded"
        assert platform.wait("waits", 120.0).state == "succeeded"
        for name in ("a", "waits"):
            ray_jobs.assert_samples_once(tmp_path / name)


@pytest.mark.slow
def test_a_node_goes_under_two_jobs_at_once(cluster, tmp_path):
    extra = cluster.add_node("node-c")
    with running_platform(tmp_path, policy="fifo", placer="spread") as platform:
        submit(platform, tmp_path, "x", (2, 6), start=6)
        submit(platform, tmp_path, "y", (2, 6), start=6)
        on_extra = [trains(platform, name, 6).nodes for name in ("x", "y")]
        assert all(any(node == "node-c" for node, _ in nodes) for nodes in on_extra)
        cluster.kill_node(extra)
        for name in ("x", "y"):
            left = until(platform, name, lambda info: info.count < 6, "loss")
            assert left.state == "running"
            trains(platform, name, left.count)
            go(tmp_path, name)
        for name in ("x", "y"):
            assert platform.wait(name, 90.0).state == "succeeded"
            ray_jobs.assert_samples_once(tmp_path / name)


def test_a_killed_replica_comes_back_on_its_slot(cluster, tmp_path):
    with running_platform(tmp_path) as platform:
        submit(platform, tmp_path, "a", 2)
        trains(platform, "a", 2)
        victim = pids("a")[1]
        os.kill(victim, signal.SIGKILL)
        until(platform, "a", lambda info: find_job("a").view().world_size == 2 and victim not in pids("a"), "return")
        trains(platform, "a", 2)
        go(tmp_path, "a")
        assert platform.wait("a", 60.0).state == "succeeded"
        ray_jobs.assert_samples_once(tmp_path / "a")


def test_a_platform_that_ended_with_all_its_processes_goes_on_from_its_store(cluster, tmp_path):
    token = make_token()
    with running_platform(tmp_path, token=token) as platform:
        submit(platform, tmp_path, "a", 1, config={"save": True})
        until(platform, "a", lambda info: info.checkpoint != "", "a checkpoint")
    with running_platform(tmp_path, token=token) as platform:
        assert platform.job("a").state in ("pending", "starting", "running")
        until(platform, "a", lambda info: info.state == "running" and info.step > 0, "a step")
        go(tmp_path, "a")
        assert platform.wait("a", 90.0).state == "succeeded"
        found, expected = torch.load(tmp_path / "a" / "rank0.pt"), loops.reference()
        assert all(torch.allclose(found[name], expected[name], rtol=1e-9) for name in expected)
