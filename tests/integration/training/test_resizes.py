"""Resizes of a real job on a real cluster; each story ends with the weights of a fixed-size run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from raytide.errors import RequestRefused
from support.cluster import TestCluster
from support.ray_jobs import assert_as_fixed_size, running, wait_size, wait_step


def test_grow_migrate_and_remove_rank_0(cluster: TestCluster, tmp_path: Path) -> None:
    """Mid-epoch growth, a move to another node, and an arbitrary rank removed: the step counter never goes back."""
    with running(tmp_path) as job:
        wait_step(job, 2)
        grown = job.scale_out(2)
        assert grown.world_size == 3
        assert grown.bytes_moved > 0
        before = job.view().step
        moved = job.migrate(1)
        assert moved.world_size == 3
        assert job.view().step >= before
        shrunk = job.scale_in(ranks=[0])
        assert shrunk.world_size == 2
        assert shrunk.transfer_s == 0.0
        assert_as_fixed_size(tmp_path, job)


def test_shrink_to_one_and_rejoin_repeatedly(cluster: TestCluster, tmp_path: Path) -> None:
    """The same job shrinks to world size 1 and grows again, over and over."""
    with running(tmp_path, start=2) as job:
        wait_step(job, 1)
        for _ in range(2):
            assert job.scale_in(1).world_size == 1
            assert job.scale_out(1).world_size == 2
        assert_as_fixed_size(tmp_path, job)


@pytest.mark.slow
def test_requests_at_the_same_time_are_merged_or_queued(cluster: TestCluster, tmp_path: Path) -> None:
    """Three requests at once: none is lost, none waits for ever."""
    with running(tmp_path, start=2) as job:
        wait_step(job, 1)
        threads = [
            threading.Thread(target=job.scale_out, args=(1,)),
            threading.Thread(target=job.scale_out, args=(1,)),
            threading.Thread(target=job.scale_in, kwargs={"ranks": [1]}),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        wait_size(job, 3)
        assert_as_fixed_size(tmp_path, job)


def test_all_members_are_replaced(cluster: TestCluster, tmp_path: Path) -> None:
    """Both replicas move to other slots in two overlapping requests; nobody of the first set remains."""
    with running(tmp_path, start=2) as job:
        first = {m.replica for m in wait_step(job, 1).members}
        moves = [threading.Thread(target=job.migrate, args=(rank,)) for rank in (0, 1)]
        for move in moves:
            move.start()
        for move in moves:
            move.join(60)
        view = wait_size(job, 2)
        assert first.isdisjoint(m.replica for m in view.members)
        assert_as_fixed_size(tmp_path, job)


def test_migrate_to_a_named_node(cluster: TestCluster, tmp_path: Path) -> None:
    """A replica goes where it is told to, and an unknown node is refused by name."""
    with running(tmp_path) as job:
        here = wait_step(job, 1).members[0].node
        head = cluster.cluster.head_node.node_id
        target = "node-b" if here == head else "node-a"
        job.migrate(0, target)
        assert job.view().members[0].node != here
        with pytest.raises(RequestRefused, match="no node called 'mars'"):
            job.migrate(0, "mars")
        assert_as_fixed_size(tmp_path, job)


def test_refused_requests_change_nothing(cluster: TestCluster, tmp_path: Path) -> None:
    """Too many, too few, no such rank: a clear word each, and no slot leaks."""
    with running(tmp_path, start=2, workers=(2, 3)) as job:
        wait_step(job, 1)
        with pytest.raises(RequestRefused, match=r"outside num_workers=\(2, 3\)"):
            job.scale_in(1)
        with pytest.raises(RequestRefused, match=r"outside num_workers=\(2, 3\)"):
            job.scale_out(2)
        with pytest.raises(RequestRefused, match="there is no rank 7"):
            job.scale_in(ranks=[7])
        with pytest.raises(RequestRefused, match="not free"):
            job.scale_out(50)
        assert_as_fixed_size(tmp_path, job)


def test_suspend_and_resume_at_another_size(cluster: TestCluster, tmp_path: Path) -> None:
    """From two replicas to none, and on with three: the non-divisible rest of the epoch is not skipped."""
    with running(tmp_path, start=2) as job:
        wait_step(job, 9)
        suspended = job.suspend()
        assert suspended.path
        assert job.view().members == ()
        job.resume(3)
        assert_as_fixed_size(tmp_path, job)


@pytest.mark.slow
def test_loader_processes_keep_working_over_resizes(cluster: TestCluster, tmp_path: Path) -> None:
    """Two loader processes with prefetch in every replica, while it grows and shrinks."""
    with running(tmp_path, config={"num_workers": 2}) as job:
        wait_step(job, 1)
        job.scale_out(1)
        job.scale_in(ranks=[0])
        assert_as_fixed_size(tmp_path, job)
