"""Tiresias with two queues, as its elastic extension builds on it.

Sources: Gu et al., *Tiresias*, NSDI 2019, section 4 (two queues by attained service); Wu et al., *Elastic Deep Learning
in Multi-Tenant GPU Clusters*, TPDS 33(1), 2022 (EDL), which starts from this order.

Rule: a job leaves the first queue when it has attained 3600 GPU seconds; inside a queue jobs go in the order of their
first start, and those that never started in the order of submission. Who does not fit is skipped or preempted.
Limits: rigid jobs, free preemption.
Starvation: possible; there is no promotion, and a job in the second queue waits while the first one is busy.
"""

from __future__ import annotations

import math

from raytide.core import Decision, EventDriven, Job, View
from raytide.policies.attained import attains_at_s, has_attained
from raytide.policies.budget import needs, walk

DEMOTION_GPU_S = 3600.0


class TwoQueues:
    """The order of Tiresias: by queue, first start and submission.

    Args:
        demotion_gpu_s: Attained service at which a job leaves the first queue.
    """

    def __init__(self, demotion_gpu_s: float) -> None:
        self._limit = demotion_gpu_s

    def level(self, job: Job, now: float) -> int:
        """0 for the first queue, 1 for the second."""
        return int(has_attained(job, now, self._limit))

    def ordered(self, view: View) -> list[Job]:
        """All jobs, the first to be served first."""
        return sorted(view, key=lambda job: (self.level(job, view.now), *_service_order(job)))

    def next_demotion_s(self, view: View, gpus: dict[str, int]) -> float | None:
        """The first instant at which a job reaches the limit, if each holds ``gpus`` from now on."""
        instants = (
            attains_at_s(job, view.now, self._limit, gpus[job.job])
            for job in view
            if gpus.get(job.job) and not self.level(job, view.now)
        )
        return min(instants, default=None)


def _service_order(job: Job) -> tuple[float, tuple[float, int]]:
    started_s = math.inf if job.first_start_s is None else job.first_start_s
    return (started_s, job.seniority)


class Tiresias:
    """Two queues, rigid jobs.

    Args:
        demotion_gpu_s: Attained service at which a job leaves the first queue.
    """

    name = "tiresias"
    clock = EventDriven()

    def __init__(self, demotion_gpu_s: float = DEMOTION_GPU_S) -> None:
        self._queues = TwoQueues(demotion_gpu_s)

    def decide(self, view: View) -> Decision:
        """Walk from the first job to the last."""
        decision = walk(view, self._queues.ordered(view))
        gpus = {job.job: job.spec.gpus(decision.shapes.get(job.job, job.shape)) for job in view}
        return Decision(decision.shapes, wake_at_s=self._queues.next_demotion_s(view, gpus))

    def why_waiting(self, view: View, job: Job) -> str:
        """Its queue, and what is missing."""
        return f"in queue {self._queues.level(job, view.now) + 1} of 2: {needs(view, job)}"
