"""The metrics that Prometheus finds at a cluster that runs raytide, and Ray's objects for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ray.util import metrics as ray_metrics

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        kind: ``gauge``, ``counter`` or ``histogram``.
        description: For people, with its unit.
        tags: Its labels.
        bounds: Upper ends of a histogram's buckets, in its unit; the last one is open.
    """

    kind: str
    description: str
    tags: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    def exported(self, name: str) -> tuple[str, ...]:
        """The names under which Prometheus finds it; Ray puts ``ray_`` in front of all of them."""
        if self.kind == COUNTER:
            return (f"ray_{name}_total",)
        if self.kind == HISTOGRAM:
            return (f"ray_{name}_bucket", f"ray_{name}_sum", f"ray_{name}_count")
        return (f"ray_{name}",)


_NODE = ("node", "gpu_type")
_JOB = ("job", "tenant")
_TICK_BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
_PAUSE_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)

METRICS: Mapping[str, Metric] = {
    "raytide_node_slots": Metric(GAUGE, "Slots of a node.", _NODE),
    "raytide_node_slots_held": Metric(GAUGE, "Slots of a node that jobs of the platform hold.", _NODE),
    "raytide_node_slots_free": Metric(GAUGE, "Slots of a node that can be given out; 0 while it drains.", _NODE),
    "raytide_node_slots_taken": Metric(GAUGE, "Slots of a node that others than the platform use.", _NODE),
    "raytide_slots_utilization": Metric(GAUGE, "Slots that jobs of the platform hold, of all slots: 0 to 1."),
    "raytide_tenant_slots": Metric(GAUGE, "Slots that a tenant's own jobs hold.", ("tenant",)),
    "raytide_tenant_usage": Metric(GAUGE, "Slots that a tenant and all below it hold, as limits count.", ("tenant",)),
    "raytide_jobs": Metric(GAUGE, "Jobs that have not ended, by state.", ("state",)),
    "raytide_queue_length": Metric(GAUGE, "Jobs of a tenant that wait for slots.", ("tenant",)),
    "raytide_queue_longest_wait_seconds": Metric(
        GAUGE, "For how long the tenant's most patient job waits, in seconds.", ("tenant",)
    ),
    "raytide_queue_mean_wait_seconds": Metric(
        GAUGE, "For how long the tenant's waiting jobs wait, in seconds, on average.", ("tenant",)
    ),
    "raytide_job_slots": Metric(GAUGE, "Slots that a job holds.", _JOB),
    "raytide_job_samples_per_second": Metric(GAUGE, "Throughput of a job at its present size.", _JOB),
    "raytide_job_samples": Metric(GAUGE, "Samples that a job has trained on; its slope is the goodput.", _JOB),
    "raytide_job_resizes": Metric(GAUGE, "How often a job was resized.", _JOB),
    "raytide_resizes": Metric(COUNTER, "Resizes of all jobs of a tenant.", ("tenant",)),
    "raytide_tick_seconds": Metric(HISTOGRAM, "What the scheduler's decisions took, in seconds.", (), _TICK_BOUNDS_S),
    "raytide_pause_seconds": Metric(
        HISTOGRAM,
        "For how long training stood still for a change of membership or a checkpoint, in seconds.",
        ("job", "kind"),
        _PAUSE_BOUNDS_S,
    ),
}
"""All metrics by name, as they are given to Ray."""


@cache
def instrument(name: str) -> Any:
    """Ray's own object of a metric of the catalogue; one in each process."""
    metric = METRICS[name]
    if metric.kind == HISTOGRAM:
        return ray_metrics.Histogram(name, metric.description, list(metric.bounds), metric.tags)
    kind = ray_metrics.Counter if metric.kind == COUNTER else ray_metrics.Gauge
    return kind(name, metric.description, metric.tags)


def export_pause(job: str, kind: str, data: Mapping[str, object]) -> None:
    """Count how long a job stood still, if an entry of its event log says so.

    Args:
        job: Its name.
        kind: Of the entry: ``generation`` or ``checkpoint``.
        data: Of the entry; ``pause_s`` is read.
    """
    pause_s = data.get("pause_s")
    if isinstance(pause_s, float) and pause_s > 0:
        instrument("raytide_pause_seconds").observe(pause_s, {"job": job, "kind": kind})
