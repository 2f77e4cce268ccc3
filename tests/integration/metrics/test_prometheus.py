"""The platform's metrics at the endpoint of a real node, where Prometheus asks for them."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest
import ray

from raytide.actors.metrics import METRICS
from support.cluster import TestCluster
from support.platform import go, running_platform, submit, until, wait_for

REPORT_S = 45.0
"""Ray's processes report every 10 s."""


def scraped() -> dict[str, float]:
    """Samples of raytide at all endpoints, by name and labels."""
    found: dict[str, float] = {}
    for node in (node for node in ray.nodes() if node["Alive"]):
        url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        for line in text.splitlines():
            if line.startswith("ray_raytide"):
                series, _, value = line.rpartition(" ")
                found[series] = float(value)
    return found


def value(samples: dict[str, float], name: str, **labels: str) -> float | None:
    """The sample of this name whose labels include these."""
    wanted = {f'{label}="{text}"' for label, text in labels.items()}
    for series, number in samples.items():
        if re.match(rf"{name}(\{{|$)", series) and all(label in series for label in wanted):
            return number
    return None


@pytest.mark.slow
def test_metrics_arrive_where_prometheus_looks(cluster: TestCluster, tmp_path: Path) -> None:
    with running_platform(tmp_path) as platform:
        submit(platform, tmp_path, "metered", (1, 2), tenant="vision")
        until(platform, "metered", lambda info: info.count == 2 and info.samples_per_s > 0, "throughput")
        platform.scale("metered", 1, 1)
        until(platform, "metered", lambda info: info.count == 1 and info.resizes > 0, "a resize")
        counted = wait_for(
            lambda: samples if value(samples := scraped(), "ray_raytide_resizes_total", tenant="vision") else None,
            "the counter of resizes",
            REPORT_S,
        )
        assert value(counted, "ray_raytide_job_slots", job="metered", tenant="vision") is not None
        now = wait_for(
            lambda: samples if value(samples := scraped(), "ray_raytide_tenant_slots", tenant="vision") == 1 else None,
            "one slot",
            REPORT_S,
        )
        assert value(now, "ray_raytide_node_slots", node="node-b") == 4
        assert value(now, "ray_raytide_slots_utilization") == 1 / 8
        assert value(now, "ray_raytide_jobs", state="running") == 1
        assert (value(now, "ray_raytide_tick_seconds_count") or 0) > 0
        paused = wait_for(
            lambda: samples if value(samples := scraped(), "ray_raytide_pause_seconds_count", job="metered") else None,
            "the pause of the resize",
            REPORT_S,
        )
        names = {series.partition("{")[0] for series in paused}
        assert {name for metric, m in METRICS.items() for name in m.exported(metric)} <= names
        go(tmp_path, "metered")
        assert platform.wait("metered", 60.0).state == "succeeded"
