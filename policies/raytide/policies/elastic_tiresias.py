"""Elastic-Tiresias: Tiresias whose jobs shrink when many wait and grow when GPUs are left.

Source: Wu et al., *Elastic Deep Learning in Multi-Tenant GPU Clusters*, TPDS 33(1), 2022 (EDL), by the rules of the
public port in heyfey/vodascheduler.

Rule, at every event: (1) give jobs what they requested, in the order of :mod:`raytide.policies.tiresias`.
(2) *Compaction*: if more than ten jobs are left waiting, every job outside of the first queue that has GPUs keeps its
minimum only. (3) *Expansion*: while GPUs are left, give one to the job whose speed-up gains most by it; a waiting job
enters with its minimum and counts with its speed-up per GPU; nobody is given a GPU that gains nothing.
Limits: no cost of resizes is weighed, so jobs are resized at almost every event; no promotion.
"""

from __future__ import annotations

import heapq

from raytide.core import Decision, EventDriven, Job, Shape, View, replicas
from raytide.policies.budget import Budget, needs
from raytide.policies.tiresias import DEMOTION_GPU_S, TwoQueues

WAITING_LIMIT = 10


class ElasticTiresias:
    """Two queues, elastic jobs.

    Args:
        demotion_gpu_s: Attained service at which a job leaves the first queue.
        waiting_limit: With more waiting jobs than this, jobs of the second queue shrink.
    """

    name = "elastic_tiresias"
    clock = EventDriven()

    def __init__(self, demotion_gpu_s: float = DEMOTION_GPU_S, waiting_limit: int = WAITING_LIMIT) -> None:
        self._queues = TwoQueues(demotion_gpu_s)
        self._waiting_limit = waiting_limit

    def decide(self, view: View) -> Decision:
        """Basic shares, compaction, expansion."""
        ordered = self._queues.ordered(view)
        shares = Shares(view, ordered)
        for job in ordered:
            shares.give(job, job.spec.requested)
        if shares.waiting > self._waiting_limit:
            for job in ordered:
                if self._queues.level(job, view.now):
                    shares.shrink(job)
        shares.expand()
        gpus = {job.job: shares.count[job.job] * job.spec.roles[0].gpus for job in ordered}
        return Decision(shares.shapes(), wake_at_s=self._queues.next_demotion_s(view, gpus))

    def why_waiting(self, view: View, job: Job) -> str:
        """Its queue, and what is missing."""
        return f"in queue {self._queues.level(job, view.now) + 1} of 2: {needs(view, job)}"


class Shares:
    """Replicas by job while a decision is made.

    Args:
        view: The instant.
        ordered: All jobs, by priority.
    """

    def __init__(self, view: View, ordered: list[Job]) -> None:
        self._view = view
        self._ordered = ordered
        self._budget = Budget(view, view.total_gpus, from_nothing=True)
        self.count = dict.fromkeys((job.job for job in ordered), 0)

    @property
    def waiting(self) -> int:
        """Jobs without a replica."""
        return sum(1 for count in self.count.values() if not count)

    def give(self, job: Job, count: int) -> bool:
        """Give a job so many replicas more, if there is room."""
        if not self._budget.take(job, replicas(count)):
            return False
        self.count[job.job] += count
        return True

    def shrink(self, job: Job) -> None:
        """Leave a job its minimum."""
        least = job.spec.roles[0].least
        spare = self.count[job.job] - least
        if spare > 0:
            self._budget.give_back(job, replicas(spare))
            self.count[job.job] = least

    def expand(self) -> None:
        """Give GPUs one at a time where they gain most, ties by priority."""
        heap = [(-self._gain(job), rank, job) for rank, job in enumerate(self._ordered)]
        heapq.heapify(heap)
        while heap and self._budget.gpus:
            gain, rank, job = heapq.heappop(heap)
            if gain >= 0:
                return
            more = 1 if self.count[job.job] else job.spec.roles[0].least
            if self.count[job.job] < job.spec.roles[0].most and self.give(job, more):
                heapq.heappush(heap, (-self._gain(job), rank, job))

    def _gain(self, job: Job) -> float:
        """What the next step of growth adds to the job's speed-up, per GPU."""
        speed = self._view.speed(job).speed
        role, count = job.spec.roles[0], self.count[job.job]
        if not count:
            return speed(role.least * role.gpus) / speed(role.gpus) / role.least
        return (speed((count + 1) * role.gpus) - speed(count * role.gpus)) / speed(role.gpus)

    def shapes(self) -> dict[str, Shape]:
        """What changes, by priority."""
        wanted = ((job, replicas(self.count[job.job])) for job in self._ordered)
        return {job.job: shape for job, shape in wanted if shape != job.shape}
