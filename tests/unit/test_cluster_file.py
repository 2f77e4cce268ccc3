"""``cluster.yaml`` is accepted by Ray's own launcher code, and says what the placer needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from raytide.actors.scheduler.nodes import LABELS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "cluster.yaml").read_text())


def test_ray_accepts_it(cluster: dict[str, Any]):
    validate_config(prepare_config(cluster))


def test_ray_refuses_a_misspelt_field(cluster: dict[str, Any]):
    cluster["max_worker"] = 3
    with pytest.raises(jsonschema.ValidationError):
        validate_config(prepare_config(cluster))


def test_every_gpu_group_tells_its_rack_zone_and_market(cluster: dict[str, Any]):
    groups = {name: node for name, node in cluster["available_node_types"].items() if "GPU" in node["resources"]}
    markets = {node["labels"]["raytide.io/market"] for node in groups.values()}
    assert markets == {"on-demand", "spot"}
    for node in groups.values():
        assert {"raytide.io/rack", "raytide.io/zone"} <= node["labels"].keys()


def test_the_spot_group_asks_for_spot_nodes(cluster: dict[str, Any]):
    for node in cluster["available_node_types"].values():
        is_spot = node["labels"].get("raytide.io/market") == "spot"
        assert is_spot == ("InstanceMarketOptions" in node["node_config"])


def test_labels_are_those_that_the_platform_reads(cluster: dict[str, Any]):
    for node in cluster["available_node_types"].values():
        assert node["labels"].keys() <= LABELS.keys()


def test_the_head_has_no_slots_and_starts_the_platform_after_ray(cluster: dict[str, Any]):
    head = cluster["available_node_types"][cluster["head_node_type"]]
    assert not any(head["resources"].values())
    stop, start, up = cluster["head_start_ray_commands"]
    assert (stop, "RAY_enable_autoscaler_v2=1 ray start --head" in start) == ("ray stop", True)
    assert up.startswith("raytide up --slot GPU=1 ")
    assert not any("raytide" in command for command in cluster["worker_start_ray_commands"])


def test_the_platform_knows_how_large_the_cluster_can_grow(cluster: dict[str, Any]):
    """Jobs above this are refused; below it they wait for nodes that the cloud really has."""
    groups = [node for node in cluster["available_node_types"].values() if "GPU" in node["resources"]]
    gpus = sorted((node["resources"]["GPU"] for node in groups for _ in range(node["max_workers"])), reverse=True)
    (said,) = re.findall(r"--most-slots (\d+)", cluster["head_start_ray_commands"][-1])
    assert int(said) == sum(gpus[: cluster["max_workers"]])


def test_state_and_tokens_outlive_the_container(cluster: dict[str, Any]):
    (mounted,) = [option for option in cluster["docker"]["head_run_options"] if option.startswith("--volume")]
    outside, inside = mounted.removeprefix("--volume ").split(":")
    assert f"mkdir -p {outside}" in cluster["initialization_commands"]
    assert f"sqlite:///{inside}/" in cluster["head_start_ray_commands"][-1]


def test_nodes_are_not_taken_while_the_first_of_a_gang_waits_for_the_last(cluster: dict[str, Any]):
    assert cluster["idle_timeout_minutes"] >= 5


def test_the_wheel_is_mounted_and_installed(cluster: dict[str, Any]):
    assert "./dist" in cluster["file_mounts"].values()
    assert any("raytide-*.whl" in command for command in cluster["setup_commands"])


def test_the_runtime_env_names_the_four_roots():
    env = yaml.safe_load((ROOT / "runtime_env.yaml").read_text())
    assert env["env_vars"]["PYTHONPATH"] == "platform:actors:policies:jobs"
