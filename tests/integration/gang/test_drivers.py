"""A script that places its own workers: Ray Train, confined to the nodes of its job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raytide.actors.slots import cluster_view
from support.cluster import SLOTS_PER_NODE
from support.gang_jobs import node_ids, rigid
from support.ray_jobs import held_slots

TRAINER = """
import json, os, sys, time
import ray, ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from raytide.train.granted import granted_nodes

folder = sys.argv[1]

def loop(config):
    model = prepare_model(torch.nn.Linear(1, 1))
    model(torch.ones(1, 1)).sum().backward()
    context = ray.train.get_context()
    rank, node = context.get_world_rank(), ray.get_runtime_context().get_node_id()
    with open(f"{folder}/worker{rank}.json", "w") as file:
        json.dump({"node": node, "size": context.get_world_size()}, file)
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.05)

scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}, **granted_nodes())
trainer = TorchTrainer(loop, scaling_config=scaling, run_config=RunConfig(storage_path=f"{folder}/train"))
trainer.fit()
print("fitted on", os.environ["RAYTIDE_SLOTS"], "slots")
"""


ACTORS = """
import os, sys, time
import ray
from raytide.train.granted import granted_nodes
ray.init(log_to_driver=False)
selector = granted_nodes()["label_selector"]
group = ray.util.placement_group([{"CPU": 1}] * 2, bundle_label_selector=[selector] * 2)
ray.get(group.ready())
open(f"{sys.argv[1]}/ready", "w").write(os.environ.get("RAYTIDE_RESUMED", "0"))
time.sleep(600)
"""


@pytest.mark.slow
def test_ray_train_stays_on_the_granted_nodes(scheduler: Any, tmp_path: Path) -> None:
    with rigid(scheduler, tmp_path, TRAINER, launch="driver") as job:
        granted = node_ids()["node-b"]
        job.start(b=2)
        job.wait_file("worker0.json")
        job.wait_file("worker1.json")
        workers = [json.loads((tmp_path / f"worker{rank}.json").read_text()) for rank in range(2)]
        assert workers == [{"node": granted, "size": 2}] * 2
        (tmp_path / "go").touch()
        assert job.wait_told("succeeded").released
        assert "fitted on 2 slots" in job.call("logs")
        assert _free(granted) == SLOTS_PER_NODE
        assert job.wait_told("running").world_size == 2


@pytest.mark.slow
def test_what_a_driver_holds_is_free_when_it_is_suspended(scheduler: Any, tmp_path: Path) -> None:
    with rigid(scheduler, tmp_path, ACTORS, launch="driver", grace_s=5.0) as job:
        first, second = node_ids()["node-b"], node_ids()["node-a"]
        job.start(b=2)
        assert job.wait_file("ready") == "0"
        assert held_slots(job.name) == []  # it reserves for itself
        assert _free(first) == SLOTS_PER_NODE - 2
        job.call("suspend", "p1")
        assert _free(first) == SLOTS_PER_NODE
        (tmp_path / "ready").unlink()
        job.start("s2", a=2)
        assert job.wait_file("ready") == "1"
        assert _free(second) == SLOTS_PER_NODE - 2


def _free(node: str) -> int:
    return next(view.free for view in cluster_view({"CPU": 1.0}) if view.node == node)
