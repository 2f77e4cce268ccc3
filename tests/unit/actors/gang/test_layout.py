"""Ranks and environments are pure functions of the grant."""

from __future__ import annotations

import json

from raytide.actors.gang.layout import driver_environment, gang_environment, grant_of, job_environment, slots_of
from raytide.elastic.model import Slot
from raytide.submission.jobfile import GANG_VARIABLES


def test_ranks_of_a_node_are_beside_each_other() -> None:
    slots = slots_of({"a": 1, "c": 2, "b": 2, "d": 0})
    assert slots == (Slot("b", 0), Slot("b", 1), Slot("c", 0), Slot("c", 1), Slot("a", 0))
    assert grant_of(slots) == {"b": 2, "c": 2, "a": 1}


def test_each_process_knows_its_place() -> None:
    slots = slots_of({"a": 2, "b": 1})
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    found = [tuple(gang_environment(slots, rank, "host", 7)[name] for name in names) for rank in range(3)]
    assert found == [
        ("0", "3", "0", "2", "0", "host", "7"),
        ("1", "3", "1", "2", "0", "host", "7"),
        ("2", "3", "0", "1", "1", "host", "7"),
    ]


def test_job_files_may_set_none_of_what_a_gang_is_given() -> None:
    assert gang_environment(slots_of({"a": 1}), 0, "host", 7).keys() == GANG_VARIABLES


def test_a_process_knows_whether_it_goes_on() -> None:
    assert job_environment("j", "/s/", resumed=True)["RAYTIDE_RESUMED"] == "1"
    first = job_environment("j", "/s/", resumed=False)
    assert "RAYTIDE_RESUMED" not in first
    assert (first["RAYTIDE_JOB"], first["RAYTIDE_CHECKPOINT_DIR"]) == ("j", "/s/state")


def test_a_driver_knows_its_nodes() -> None:
    found = driver_environment(slots_of({"a": 2, "b": 1}), "host:6379", {"pip": ["x"]})
    assert (found["RAYTIDE_NODES"], found["RAYTIDE_SLOTS"], found["RAY_ADDRESS"]) == ("a,b", "3", "host:6379")
    assert json.loads(found["RAYTIDE_LABEL_SELECTOR"]) == {"ray.io/node-id": "in(a,b)"}
    assert json.loads(found["RAY_JOB_CONFIG_JSON_ENV_VAR"]) == {"runtime_env": {"pip": ["x"]}}
    assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in driver_environment(slots_of({"a": 1}), "", {})
