"""``cluster.yaml`` is accepted by Ray's own launcher code, and says what the placer needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

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


def test_the_wheel_is_mounted_and_installed(cluster: dict[str, Any]):
    assert "./dist" in cluster["file_mounts"].values()
    assert any("raytide-*.whl" in command for command in cluster["setup_commands"])


def test_the_runtime_env_names_the_four_roots():
    env = yaml.safe_load((ROOT / "runtime_env.yaml").read_text())
    assert env["env_vars"]["PYTHONPATH"] == "platform:actors:policies:jobs"
