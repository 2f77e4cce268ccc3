"""Nodes that will go: a job leaves them while it trains, before they are gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import ray

from raytide.actors.platform import Platform
from support.cluster import TestCluster
from support.platform import go, running_platform, submit, until, wait_for
from support.ray_jobs import assert_samples_once

NOTICE_S = 120


@pytest.mark.slow
def test_a_node_that_people_drain_is_left(cluster: TestCluster, tmp_path: Path) -> None:
    with running_platform(tmp_path) as platform:
        node = starts(platform, tmp_path)
        platform.drain(node)
        leaves(platform, tmp_path, node)


def test_a_node_that_ray_drains_is_left_inside_the_notice(cluster: TestCluster, tmp_path: Path) -> None:
    extra = cluster.add_node("node-c", slots=2)
    try:
        with running_platform(tmp_path) as platform:
            wait_for(lambda: len(platform.info().nodes) == 3, "three nodes")
            assert starts(platform, tmp_path) == "node-c", "where two slots fit best"
            ray_drain(extra.node_id)
            leaves(platform, tmp_path, "node-c")
    finally:
        cluster.kill_node(extra)


def starts(platform: Platform, folder: Path) -> str:
    """A job of two replicas; returns the name of its node."""
    submit(platform, folder, "moves", (2, 2))
    info = until(platform, "moves", lambda info: info.state == "running" and info.step > 2, "steps")
    ((node, count),) = info.nodes
    assert count == 2
    return node


def leaves(platform: Platform, folder: Path, node: str) -> None:
    """The job trains elsewhere, was never interrupted, and used every sample once."""
    moved = until(
        platform,
        "moves",
        lambda info: info.state == "running" and node not in dict(info.nodes) and sum(dict(info.nodes).values()) == 2,
        "another node",
    )
    assert not any(known.open for known in platform.info().nodes if known.name == node)
    until(platform, "moves", lambda info: info.step > moved.step, "steps elsewhere")
    go(folder, "moves")
    ended = platform.wait("moves", 60.0)
    assert (ended.state, ended.resizes, ended.suspensions, dict(ended.failures)) == ("succeeded", 1, 0, {})
    assert_samples_once(folder / "moves")


def ray_drain(node: str) -> None:
    """As a cloud's notice would: the node goes in two minutes."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "drain-node"]
    command += ["--address", ray.get_runtime_context().gcs_address, "--node-id", node]
    command += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot instance reclaimed"]
    command += ["--deadline-remaining-seconds", str(NOTICE_S)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
