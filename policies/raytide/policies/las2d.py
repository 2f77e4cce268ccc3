"""Discretised two-dimensional least attained service: Tiresias without knowledge of durations.

Source: Gu et al., *Tiresias: A GPU Cluster Manager for Distributed Deep Learning*, NSDI 2019, section 4.

Rule: jobs enter the first of several queues and are demoted when their attained service (GPUs times seconds) reaches
the queue's limit; earlier queues go first. Inside a queue running jobs go before waiting ones, and both keep their
order, so that jobs do not take turns. Who does not fit is skipped or preempted. Demotions happen at the exact instant.
Limits: rigid jobs, free preemption. There is no promotion: a job in the last queue waits while earlier ones are busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain

from raytide.core import Decision, EventDriven, Job, View
from raytide.policies.budget import needs, walk

LIMITS_GPU_S = (3250.0, 7200.0)
"""Limits of all queues but the last, as in the simulator that its authors published."""

ROUNDING_GPU_S = 1e-4
"""The instant of a demotion is computed in floating point: at it, this much may be missing."""


class Las2d:
    """Queues by attained service.

    Args:
        limits_gpu_s: Attained service at which a job leaves each queue but the last.
    """

    name = "las2d"
    clock = EventDriven()

    def __init__(self, limits_gpu_s: Sequence[float] = LIMITS_GPU_S) -> None:
        self._limits = tuple(limits_gpu_s)
        self._queues: list[list[Job]] = [[] for _ in range(len(self._limits) + 1)]

    def decide(self, view: View) -> Decision:
        """Demote, then walk from the first queue to the last."""
        self._queues[0].extend(view.arrived)
        self._demote(view.now)
        decision = walk(view, chain.from_iterable(self._queues))
        runs = {job: bool(decision.shapes.get(job.job, job.shape)) for queue in self._queues for job in queue}
        for queue in self._queues:
            queue.sort(key=lambda job: not runs[job])
        return Decision(decision.shapes, wake_at_s=self._next_demotion_s(view.now, runs))

    def _demote(self, now: float) -> None:
        demoted: list[Job] = []
        for level, queue in enumerate(self._queues):
            arriving, demoted = demoted, []
            limit = self._limits[level] if level < len(self._limits) else math.inf
            stay: list[Job] = []
            for job in queue:
                if not job.ended:
                    (demoted if job.attained_gpu_s(now) > limit - ROUNDING_GPU_S else stay).append(job)
            self._queues[level] = stay + arriving

    def _next_demotion_s(self, now: float, runs: Mapping[Job, bool]) -> float | None:
        """The first instant at which a job that runs from now on reaches its queue's limit."""
        instants = (
            now + (limit - job.attained_gpu_s(now)) / job.requested_gpus
            for limit, queue in zip(self._limits, self._queues, strict=False)
            for job in queue
            if runs[job]
        )
        return min(instants, default=None)

    def why_waiting(self, view: View, job: Job) -> str:
        """Its queue, and what is missing."""
        level = next(i for i, queue in enumerate(self._queues) if job in queue)
        ahead = sum(len(queue) for queue in self._queues[:level]) + self._queues[level].index(job)
        return f"in queue {level + 1} of {len(self._queues)}, behind {ahead} jobs: {needs(view, job)}"
