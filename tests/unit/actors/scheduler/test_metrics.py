"""What the platform tells Prometheus, and the dashboard that shows it."""

from __future__ import annotations

import json
import re
from collections import deque
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from raytide.actors.metrics import METRICS
from raytide.actors.scheduler import exporter
from raytide.actors.scheduler.exporter import Exporter
from raytide.actors.scheduler.metrics import readings
from support.platform_info import job_info, node_info, platform_info

ROOT = Path(__file__).parents[4]
DASHBOARD = files("raytide.dashboards") / "raytide.json"
NOW = 1000.0

BUSY = platform_info(
    nodes=(
        node_info("a", 4, held=(("one", 2), ("two", 1)), taken=1),
        node_info("b", 4, held=(("one", 1),)),
        node_info("c", 2, open=False),
    ),
    jobs=(
        job_info("one", state="running", gpus=3, samples_per_s=120.0, resizes=2, done=500.0),
        job_info("two", tenant="speech", state="starting", gpus=1),
        job_info("three", position=1, queued_s=900.0),
        job_info("four", position=2, queued_s=980.0),
    ),
    usage={"research": 4, "vision": 3},
)


def values(info: Any = BUSY) -> dict[tuple[Any, ...], float]:
    return {(r.name, *(value for _, value in r.tags)): r.value for r in readings(info, NOW)}


def test_slots_of_nodes_are_held_free_or_used_by_others():
    found = values()
    assert [found["raytide_node_slots", node, "a100"] for node in "abc"] == [4, 4, 2]
    assert [found["raytide_node_slots_held", node, "a100"] for node in "abc"] == [3, 1, 0]
    assert [found["raytide_node_slots_free", node, "a100"] for node in "abc"] == [0, 3, 0], "c drains"
    assert [found["raytide_node_slots_taken", node, "a100"] for node in "abc"] == [1, 0, 0]
    assert found["raytide_slots_utilization",] == pytest.approx(0.4)


def test_slots_of_tenants_with_and_without_those_below():
    found = values()
    assert found["raytide_tenant_slots", "vision"] == 3
    assert found["raytide_tenant_slots", "speech"] == 1
    assert found["raytide_tenant_usage", "research"] == 4


def test_the_queue_of_every_tenant_that_has_jobs():
    found = values()
    assert [found["raytide_queue_length", tenant] for tenant in ("vision", "speech")] == [2, 0]
    assert found["raytide_queue_longest_wait_seconds", "vision"] == 100.0
    assert found["raytide_queue_mean_wait_seconds", "vision"] == 60.0
    assert found["raytide_queue_mean_wait_seconds", "speech"] == 0.0


def test_jobs_by_state_and_each_by_name():
    found = values()
    assert [found["raytide_jobs", state] for state in ("running", "pending", "suspended")] == [1, 2, 0]
    assert found["raytide_job_samples_per_second", "one", "vision"] == 120.0
    assert found["raytide_job_samples", "one", "vision"] == 500.0
    assert found["raytide_job_resizes", "one", "vision"] == 2


def test_an_empty_platform_has_readings_too():
    assert values(platform_info())["raytide_slots_utilization",] == 0.0


def test_readings_have_the_labels_of_the_catalogue_and_no_value_twice():
    found = readings(BUSY, NOW)
    for reading in found:
        assert METRICS[reading.name].kind == "gauge"
        assert tuple(name for name, _ in reading.tags) == METRICS[reading.name].tags
    assert len({(r.name, r.tags) for r in found}) == len(found)


def test_every_gauge_of_the_catalogue_is_read():
    assert {r.name for r in readings(BUSY, NOW)} == {name for name, m in METRICS.items() if m.kind == "gauge"}


# --- the exporter --------------------------------------------------------------------------------


class Instruments:
    """Stands in for Ray's: remembers what was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, float, dict[str, str]]] = []

    def __call__(self, name: str) -> Any:
        said = self.said

        class One:
            def set(self, value: float, tags: dict[str, str]) -> None:
                said.append((name, "set", value, tags))

            def inc(self, value: float, tags: dict[str, str]) -> None:
                said.append((name, "inc", value, tags))

            def observe(self, value: float) -> None:
                said.append((name, "observe", value, {}))

        return One()

    def take(self, name: str) -> list[tuple[str, float, dict[str, str]]]:
        found = [entry[1:] for entry in self.said if entry[0] == name]
        self.said.clear()
        return found


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Instruments:
    instruments = Instruments()
    monkeypatch.setattr(exporter, "instrument", instruments)
    return instruments


def test_resizes_are_counted_from_the_first_look_on(told: Instruments):
    jobs = [job_info("one", resizes=5)]
    subject = Exporter(lambda: platform_info(jobs=tuple(jobs)), deque())
    subject.step()
    assert told.take("raytide_resizes") == []
    jobs[:] = [job_info("one", resizes=7), job_info("new", resizes=1)]
    subject.step()
    assert told.take("raytide_resizes") == [("inc", 3, {"tenant": "vision"})]
    subject.step()
    assert told.take("raytide_resizes") == []


def test_a_job_that_ended_is_set_to_nothing_once(told: Instruments):
    jobs = [job_info("one", gpus=2, state="running")]
    subject = Exporter(lambda: platform_info(jobs=tuple(jobs)), deque())
    tags = {"job": "one", "tenant": "vision"}
    subject.step()
    assert told.take("raytide_job_slots") == [("set", 2.0, tags)]
    jobs.clear()
    subject.step()
    assert told.take("raytide_job_slots") == [("set", 0.0, tags)]
    subject.step()
    assert told.take("raytide_job_slots") == []


def test_every_decision_is_observed_once(told: Instruments):
    ticks = deque([0.001, 0.002])
    subject = Exporter(platform_info, ticks)
    subject.step()
    assert [value for _, value, _ in told.take("raytide_tick_seconds")] == [0.001, 0.002]
    assert not ticks


# --- the dashboard -------------------------------------------------------------------------------


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def test_the_dashboard_queries_only_what_is_exported():
    exported = {name for metric, m in METRICS.items() for name in m.exported(metric)}
    queried = {
        name for panel in panels() for target in panel["targets"] for name in re.findall(r"\bray_\w+", target["expr"])
    }
    assert queried
    assert queried <= exported


def test_the_dashboard_filters_by_labels_that_the_metrics_have():
    tags = {name: m.tags for metric, m in METRICS.items() for name in m.exported(metric)}
    for panel in panels():
        for target in panel["targets"]:
            for name, labels in re.findall(r"\b(ray_\w+)\{([^}]*)\}", target["expr"]):
                assert set(re.findall(r"(\w+)=", labels)) <= set(tags[name]), target["expr"]


def test_the_dashboard_is_whole():
    board = json.loads(DASHBOARD.read_text())
    assert board["uid"] == "raytide"
    assert board["title"] == "raytide"
    assert board["schemaVersion"] >= 39
    assert {variable["name"] for variable in board["templating"]["list"]} == {"datasource", "tenant"}
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        assert panel["targets"]
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels()]
    assert len(set(places)) == len(places), "panels lie over each other"


def test_the_guide_lists_every_metric_and_no_other():
    guide = (ROOT / "docs/metrics.md").read_text()
    listed = dict(re.findall(r"^\| `(ray_\w+)` \| (\w+) \|", guide, re.MULTILINE))
    exported = {m.exported(name)[0].removesuffix("_bucket"): m.kind for name, m in METRICS.items()}
    assert listed == exported
    known = {name for metric, m in METRICS.items() for name in m.exported(metric)} | exported.keys()
    assert set(re.findall(r"\bray_raytide_\w+", guide)) <= known
