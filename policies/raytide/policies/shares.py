"""Replicas by job while a policy that resizes jobs makes its decision."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from raytide.core import Job, Shape, View, replicas
from raytide.policies.budget import Budget

Gain = Callable[[Job, int], float]
"""What a job gains by one more step of growth from a number of replicas."""


class Shares:
    """Replicas by job while a decision is made.

    Jobs that run and may not be preempted have their minimum from the beginning, before anybody else gets anything.

    Args:
        view: The instant.
        ordered: All jobs, by priority.
    """

    def __init__(self, view: View, ordered: Sequence[Job]) -> None:
        self._ordered = ordered
        self._budget = Budget(view, view.total_gpus, from_nothing=True)
        self.count = dict.fromkeys((job.job for job in ordered), 0)
        for job in ordered:
            if job.gpus and not job.spec.preemptible:
                self.give(job, job.spec.roles[0].least)

    @property
    def waiting(self) -> int:
        """Jobs without a replica."""
        return sum(1 for count in self.count.values() if not count)

    def give(self, job: Job, count: int) -> bool:
        """Give a job so many replicas more, if there is room."""
        if not self._budget.take_gpus(job, count * job.spec.roles[0].gpus):
            return False
        self.count[job.job] += count
        return True

    def raise_to(self, job: Job, count: int) -> None:
        """Give a job what it lacks of so many replicas, all of it or nothing."""
        self.give(job, max(0, count - self.count[job.job]))

    def shrink(self, job: Job) -> None:
        """Leave a job its minimum."""
        least = job.spec.roles[0].least
        spare = self.count[job.job] - least
        if spare > 0:
            self._budget.give_back(job, replicas(spare))
            self.count[job.job] = least

    def expand(self, gain: Gain) -> None:
        """Give replicas one at a time where they gain most, ties by priority; a job without any gets its least.

        Args:
            gain: What the next step from a number of replicas brings; nobody is given what brings nothing.
        """
        if not self._budget.gpus:
            return
        heap = [(-gain(job, self.count[job.job]), rank, job) for rank, job in enumerate(self._ordered)]
        heapq.heapify(heap)
        while heap and self._budget.gpus:
            lost, rank, job = heap[0]
            if lost >= 0:
                return
            count, role = self.count[job.job], job.spec.roles[0]
            more = 1 if count else role.least
            if count < role.most and self.give(job, more):
                heapq.heapreplace(heap, (-gain(job, count + more), rank, job))
            else:
                heapq.heappop(heap)

    def shapes(self) -> dict[str, Shape]:
        """What changes, by priority."""
        wanted = ((job, replicas(self.count[job.job])) for job in self._ordered)
        return {job.job: shape for job, shape in wanted if shape != job.shape}
