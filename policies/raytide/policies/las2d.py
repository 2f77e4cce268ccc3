"""Discretised two-dimensional least attained service: Tiresias without knowledge of durations.

Source: Gu et al., *Tiresias: A GPU Cluster Manager for Distributed Deep Learning*, NSDI 2019, section 4.

Rule: jobs enter the first of several queues and are demoted when their attained service (GPUs times seconds) reaches
the queue's limit; earlier queues go first. Inside a queue running jobs go before waiting ones, and both keep their
order, so that jobs do not take turns. Who does not fit is skipped or preempted. Demotions happen at the exact instant.
Limits: rigid jobs, free preemption.
Starvation: possible; there is no promotion, and a job in the last queue waits while earlier ones are busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from raytide.core import Decision, EventDriven, Job, Shape, View
from raytide.core.policy import Clock
from raytide.policies.attained import attains_at_s, has_attained
from raytide.policies.budget import needs, walk

LIMITS_GPU_S = (3250.0, 7200.0)
"""Limits of all queues but the last, as in the simulator that its authors published."""
ALWAYS = EventDriven()


class Las2d:
    """Queues by attained service.

    Args:
        limits_gpu_s: Attained service at which a job leaves each queue but the last.
        clock: When it decides; demotions are as late as that.
        running_first: Whether running jobs go before waiting ones inside a queue; else it is first come, first served.
    """

    name = "las2d"

    def __init__(
        self, limits_gpu_s: Sequence[float] = LIMITS_GPU_S, clock: Clock = ALWAYS, *, running_first: bool = True
    ) -> None:
        self.clock = clock
        self._running_first = running_first
        self._limits = tuple(limits_gpu_s)
        self._queues: list[list[Job]] = [[] for _ in range(len(self._limits) + 1)]
        self._level: dict[Job, int] = {}

    def decide(self, view: View) -> Decision:
        """Demote, then walk from the first queue to the last."""
        for job in view.arrived:
            self._enter(job, 0)
        for job in view.ended:
            self._queues[self._level.pop(job)].remove(job)
        touched = self._demote(view.now)
        decision = walk(view, chain.from_iterable(self._queues))
        shapes = decision.shapes
        if self._running_first:
            for level in touched | {self._level[view.jobs[name]] for name in shapes}:
                self._queues[level].sort(key=lambda job: not shapes.get(job.job, job.shape))
        return Decision(shapes, wake_at_s=self._next_demotion_s(view.now, shapes))

    def _enter(self, job: Job, level: int) -> None:
        self._queues[level].append(job)
        self._level[job] = level

    def _demote(self, now: float) -> set[int]:
        """Move jobs that reached their queue's limit to the end of the next one; returns the queues that grew."""
        grown: set[int] = set()
        for level in reversed(range(len(self._limits))):  # so that nobody falls through two queues at once
            limit = self._limits[level]
            demoted = [job for job in self._queues[level] if has_attained(job, now, limit)]
            for job in demoted:
                self._queues[level].remove(job)
                self._enter(job, level + 1)
                grown.add(level + 1)
        return grown

    def _next_demotion_s(self, now: float, shapes: Mapping[str, Shape]) -> float | None:
        """The first instant at which a job that runs from now on reaches its queue's limit."""
        instants = (
            attains_at_s(job, now, limit, job.requested_gpus)
            for limit, queue in zip(self._limits, self._queues, strict=False)
            for job in queue
            if shapes.get(job.job, job.shape)
        )
        return min(instants, default=None)

    def why_waiting(self, view: View, job: Job) -> str:
        """Its queue, and what is missing."""
        level = self._level[job]
        ahead = sum(len(queue) for queue in self._queues[:level]) + self._queues[level].index(job)
        return f"in queue {level + 1} of {len(self._queues)}, behind {ahead} jobs: {needs(view, job)}"
