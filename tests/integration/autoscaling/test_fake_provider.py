"""Ray's own autoscaler, whose nodes are processes here: a job waits, a node comes, it runs, and the node goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import ray

from support.fake_cloud import fake_cloud, port_is_free
from support.platform import go, running_platform, submit, until, wait_for

LABELS = {"raytide.io/rack": "rack-a", "raytide.io/market": "spot"}
WORKER = {"resources": {"CPU": 2}, "node_config": {}, "min_workers": 0, "max_workers": 2, "labels": LABELS}
IDLE_S = 12.0
COME_S = 90.0


def alive() -> list[dict[str, Any]]:
    """Nodes with slots."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]


def demanded() -> list[str]:
    """States of the groups that ask for nodes."""
    groups = ray.util.placement_group_table().values()
    return [g["state"] for g in groups if g["name"].startswith("raytide-demand:") and g["state"] != "REMOVED"]


@pytest.mark.slow
@pytest.mark.skipif(not port_is_free(), reason="the fake provider needs port 6379, where somebody listens")
def test_nodes_come_for_a_job_and_go_after_it(tmp_path: Path) -> None:
    with fake_cloud({"worker": WORKER}, IDLE_S), running_platform(tmp_path, most_slots=4) as platform:
        assert alive() == []
        assert submit(platform, tmp_path, "huge", (5, 5)).state == "refused", "the cluster never has five"
        assert submit(platform, tmp_path, "job", (2, 2)).state == "pending"
        wait_for(demanded, "the demand")
        (node,) = wait_for(alive, "a node with two slots", COME_S)
        assert LABELS.items() <= node["Labels"].items()
        until(platform, "job", lambda job: job.state == "running" and job.step > 0, "steps")
        assert demanded() == []
        assert [known.taken for known in platform.info().nodes] == [0]
        go(tmp_path, "job")
        ended = platform.wait("job", 60.0)
        assert (ended.state, dict(ended.failures)) == ("succeeded", {})
        wait_for(lambda: alive() == [], "the node to go", COME_S)
        wait_for(lambda: platform.info().nodes == (), "the platform to notice")
