"""A trace in numbers: how many jobs, how large, how long, how often, and how much work that is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from raytide.errors import ConfigError
from raytide.sim.traces.job import TraceJob


@dataclass(frozen=True)
class Percentiles:
    """How values are spread, in seconds; between two values interpolated linearly."""

    least: float
    p10: float
    p50: float
    p90: float
    p99: float
    most: float
    mean: float


@dataclass(frozen=True)
class TraceDescription:
    """What a trace holds.

    Attributes:
        jobs: How many.
        span_s: From the first submission to the last.
        tenants: Each tenant's number of jobs, most first.
        sizes: How many jobs ask for each number of GPUs, smallest first.
        gpu_hours: Work of the jobs whose durations are known.
        unknown_durations: Jobs whose durations are not.
        duration_s: Of the known ones; None if there are none.
        interarrival_s: Between submissions; None if there is one job only.
    """

    jobs: int
    span_s: float
    tenants: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[int, int], ...]
    gpu_hours: float
    unknown_durations: int
    duration_s: Percentiles | None
    interarrival_s: Percentiles | None

    def offered_load(self, gpus: int) -> float:
        """Known work per second of the span, as a share of ``gpus`` GPUs; above 1 a queue must grow.

        Infinite if all jobs come at once.

        Raises:
            ConfigError: There are no GPUs.
        """
        if gpus < 1:
            raise ConfigError("offered_load.gpus", f"{gpus} GPUs can do no work", "Give at least 1")
        return self.gpu_hours * 3600 / (gpus * self.span_s) if self.span_s else math.inf


def describe(jobs: Sequence[TraceJob]) -> TraceDescription:
    """Describe a trace, whatever its order.

    Raises:
        ConfigError: It has no jobs.
    """
    if not jobs:
        raise ConfigError("describe.jobs", "there are none", "Give a trace with at least one job")
    submits_s = sorted(job.submit_s for job in jobs)
    durations_s = [job.duration_s for job in jobs if job.duration_s is not None]
    tenants = Counter(job.tenant for job in jobs)
    return TraceDescription(
        jobs=len(jobs),
        span_s=submits_s[-1] - submits_s[0],
        tenants=tuple(sorted(tenants.items(), key=lambda entry: (-entry[1], entry[0]))),
        sizes=tuple(sorted(Counter(job.gpus for job in jobs).items())),
        gpu_hours=math.fsum(job.gpu_s or 0.0 for job in jobs) / 3600,
        unknown_durations=len(jobs) - len(durations_s),
        duration_s=_percentiles(durations_s),
        interarrival_s=_percentiles(np.diff(submits_s).tolist()),
    )


def _percentiles(values: Sequence[float]) -> Percentiles | None:
    if not values:
        return None
    least, p10, p50, p90, p99, most = np.percentile(values, (0, 10, 50, 90, 99, 100)).tolist()
    return Percentiles(least, p10, p50, p90, p99, most, mean=math.fsum(values) / len(values))
