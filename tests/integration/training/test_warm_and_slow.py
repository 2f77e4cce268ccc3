"""Warm standbys, and replicas that are slower than the others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import ray

from raytide.actors.names import NAMESPACE
from raytide.actors.slots import cluster_view
from support.cluster import SLOTS_PER_NODE, TestCluster
from support.ray_jobs import assert_as_fixed_size, held_slots, running, wait, wait_size, wait_step


def standby_pids(job: str, count: int) -> set[int]:
    """Processes of a job's standbys, claimed ones included, once there are ``count`` warm ones."""
    deadline_s = time.monotonic() + 60.0
    while time.monotonic() < deadline_s:
        actors = ray.util.list_named_actors(all_namespaces=True)
        names = [a["name"] for a in actors if a["name"].startswith(f"replica:{job}:standby")]
        if len(names) == count:
            warm = [ray.get_actor(name, namespace=NAMESPACE).warm.remote() for name in names]
            return set(ray.get(warm, timeout=60.0))
        time.sleep(0.1)
    raise AssertionError(f"job {job} has no {count} standbys")


def test_a_standby_is_claimed_by_growth_and_replaced(cluster: TestCluster, tmp_path: Path) -> None:
    """Growth starts no process: the newcomer is the standby, and the next standby comes up behind it."""
    with running(tmp_path, scaling={"standbys": 1}) as job:
        wait_step(job, 1)
        first = standby_pids(job.name, 1)
        job.scale_out(1)
        assert first < {member.pid for member in job.view().members}
        assert first < standby_pids(job.name, 2), "another one comes up behind it"
        assert len(held_slots(job.name)) == 3
        assert_as_fixed_size(tmp_path, job)
        assert held_slots(job.name) == [], "a standby outlived its job"


def test_suspension_gives_back_the_slots_of_standbys_too(cluster: TestCluster, tmp_path: Path) -> None:
    """A suspended job holds nothing at all."""
    with running(tmp_path, scaling={"standbys": 2}) as job:
        wait_step(job, 1)
        standby_pids(job.name, 2)
        job.suspend()
        wait(job, lambda _: held_slots(job.name) == [], "no slots")


def test_a_standby_leaves_the_last_slot_to_growth(cluster: TestCluster, tmp_path: Path) -> None:
    """Slots of standbys count as free for the job that keeps them warm."""
    slot = {"CPU": SLOTS_PER_NODE / 2}
    with running(tmp_path, workers=(1, 4), start=2, scaling={"standbys": 2, "resources_per_worker": slot}) as job:
        wait_size(job, 2)
        standby_pids(job.name, 2)
        wait(job, lambda _: not any(view.free for view in cluster_view(slot)), "standbys on all other slots")
        assert job.scale_out(2).world_size == 4
        job.stop()


@pytest.mark.slow
def test_a_straggler_is_named_and_replaced(cluster: TestCluster, tmp_path: Path) -> None:
    """One process of three is slow in its own work; another one takes its place and training speeds up."""
    config = {"sleep_s": 0.05, "epochs": 4000, "drag": {"rank": 1, "s": 0.4}}
    with running(tmp_path, start=3, config=config, scaling={"replace_stragglers": True}) as job:
        wait_step(job, 1)
        before = {member.replica for member in job.view().members}
        view = wait(job, lambda v: any(e.kind == "straggler" for e in v.events), "the straggler")
        told = next(e for e in view.events if e.kind == "straggler")
        assert told.data["rank"] == 1
        assert told.data["ratio"] > 1.5
        slow = told.data["replica"]
        view = wait(job, lambda v: v.generation > 1 and v.world_size == 3, "the replacement")
        now = {member.replica for member in view.members if member.rank >= 0}
        assert before - now == {slow}
        job.stop()
        assert job.result().status == "stopped"
