"""The time that figures of the cluster are about, and the GPUs there were in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from raytide.sim.series import Steps
from raytide.sim.simulation import SimResult


@dataclass(frozen=True)
class Window:
    """From the first submission to the last instant at which a job gave back GPUs.

    Attributes:
        start_s: Its begin.
        end_s: Its end; the begin if nothing ever ran.
        gpus: GPUs of the cluster over time.
    """

    start_s: float
    end_s: float
    gpus: Steps

    @classmethod
    def of(cls, result: SimResult) -> Window:
        """The window of a simulation; empty if it had no jobs."""
        start_s = min((job.spec.submitted_s for job in result.jobs), default=0.0)
        end_s = max((float(time_s) for time_s in result.ledger.time_s[-1:]), default=start_s)
        timeline = result.timeline
        return cls(start_s, end_s, Steps.of(timeline.time_s, timeline.total_gpus))

    @property
    def span_s(self) -> float:
        """How long it is."""
        return self.end_s - self.start_s

    @cached_property
    def gpu_s(self) -> float:
        """GPU seconds there were in it."""
        return self.gpus.area(self.start_s, self.end_s)

    def area(self, steps: Steps) -> float:
        """The area below ``steps`` in it."""
        return steps.area(self.start_s, self.end_s)

    def share(self, gpu_s: float) -> float:
        """A part of its GPU seconds; NaN if it has none."""
        return gpu_s / self.gpu_s if self.gpu_s else math.nan
