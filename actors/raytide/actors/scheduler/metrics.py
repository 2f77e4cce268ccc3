"""The values of the platform's gauges at one instant. It needs no Ray cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from raytide.actors.scheduler.info import JobInfo, NodeInfo, PlatformInfo
from raytide.core.lifecycle import HOLDING, WAITING

LIVE_STATES = tuple(sorted(str(state) for state in WAITING | HOLDING))


@dataclass(frozen=True)
class Reading:
    """The value of a gauge.

    Attributes:
        name: One of :data:`raytide.actors.metrics.METRICS`.
        tags: Its labels, in the order of the metric's.
        value: In the metric's unit.
    """

    name: str
    tags: tuple[tuple[str, str], ...]
    value: float


def readings(info: PlatformInfo, now: float) -> list[Reading]:
    """All gauges.

    Args:
        info: The platform.
        now: Seconds since 1970, on the clock of its jobs.
    """
    return [*_of_nodes(info.nodes), *_of_tenants(info), *_of_queue(info.jobs, now), *_of_jobs(info.jobs)]


def _of_nodes(nodes: Iterable[NodeInfo]) -> Iterator[Reading]:
    held_in_all = total = 0
    for node in nodes:
        tags = (("node", node.name), ("gpu_type", node.gpu_type))
        held = sum(count for _, count in node.held)
        free = max(0, node.slots - held - node.taken) if node.open else 0
        held_in_all, total = held_in_all + held, total + node.slots
        yield Reading("raytide_node_slots", tags, node.slots)
        yield Reading("raytide_node_slots_held", tags, held)
        yield Reading("raytide_node_slots_free", tags, free)
        yield Reading("raytide_node_slots_taken", tags, node.taken)
    yield Reading("raytide_slots_utilization", (), held_in_all / total if total else 0.0)


def _of_tenants(info: PlatformInfo) -> Iterator[Reading]:
    own: Counter[str] = Counter()
    for job in info.jobs:
        own[job.tenant] += job.gpus
    for tenant, slots in own.items():
        yield Reading("raytide_tenant_slots", (("tenant", tenant),), slots)
    for tenant, slots in info.usage.items():
        yield Reading("raytide_tenant_usage", (("tenant", tenant),), slots)


def _of_queue(jobs: Iterable[JobInfo], now: float) -> Iterator[Reading]:
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for job in jobs:
        known = waits[job.tenant]
        if job.position:
            known.append(max(0.0, now - job.queued_s))
    for tenant, waited in waits.items():
        tags = (("tenant", tenant),)
        yield Reading("raytide_queue_length", tags, len(waited))
        yield Reading("raytide_queue_longest_wait_seconds", tags, max(waited, default=0.0))
        yield Reading("raytide_queue_mean_wait_seconds", tags, sum(waited) / len(waited) if waited else 0.0)


def _of_jobs(jobs: Iterable[JobInfo]) -> Iterator[Reading]:
    states = Counter(dict.fromkeys(LIVE_STATES, 0))
    for job in jobs:
        states[job.state] += 1
        tags = (("job", job.job), ("tenant", job.tenant))
        yield Reading("raytide_job_slots", tags, job.gpus)
        yield Reading("raytide_job_samples_per_second", tags, job.samples_per_s if job.gpus else 0.0)
        yield Reading("raytide_job_samples", tags, job.done)
        yield Reading("raytide_job_resizes", tags, job.resizes)
    for state, count in states.items():
        yield Reading("raytide_jobs", (("state", state),), count)
