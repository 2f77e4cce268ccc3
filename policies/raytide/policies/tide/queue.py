"""Waiting jobs by what they need at least, so that whoever fits is found without a walk through all of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice

from raytide.core import Job, Shape, View, replicas
from raytide.policies.budget import Budget

MOST_TRIES = 64
"""Jobs looked at in one go; those that a tenant's limit keeps back count, too."""


class Queue:
    """Waiting jobs, the shortest first among those of one size."""

    def __init__(self) -> None:
        self._by_need: dict[int, list[tuple[float, tuple[float, int], Job]]] = {}

    def fill(self, jobs: Iterable[Job]) -> None:
        """Begin anew with these."""
        self._by_need.clear()
        for job in jobs:
            self.add(job)

    def add(self, job: Job) -> None:
        """A job waits."""
        need = job.spec.gpus(job.spec.least_shape)
        heapq.heappush(self._by_need.setdefault(need, []), (job.spec.duration_s or 0.0, job.seniority, job))

    def start(self, view: View, overdue: Iterable[Job]) -> dict[str, Shape]:
        """Shapes of jobs that can start on free GPUs.

        Args:
            view: The instant.
            overdue: Waiting jobs that go before all others, in this order.
        """
        budget = Budget(view, view.free_gpus, from_nothing=False)
        shapes: dict[str, Shape] = {}
        kept_back: list[Job] = []

        def take(job: Job) -> bool:
            shape = _first_shape(job, min(budget.gpus, view.cluster.largest_node_gpus))
            if not budget.take(job, shape):
                return False
            shapes[job.job] = shape
            return True

        for job in islice(overdue, MOST_TRIES):
            if not budget.gpus:
                break
            take(job)
        while budget.gpus and len(shapes) + len(kept_back) < MOST_TRIES:
            shortest = self._next(budget.gpus)
            if shortest is None:
                break
            if shortest.job not in shapes and not take(shortest):
                kept_back.append(shortest)
        for job in kept_back:
            self.add(job)
        return shapes

    def _next(self, gpus: int) -> Job | None:
        """Takes out the shortest job that needs at most so many GPUs."""
        heads = []
        for need, heap in self._by_need.items():
            while heap and not heap[0][2].waiting:
                heapq.heappop(heap)
            if heap and need <= gpus:
                heads.append((heap[0][:2], need))
        return heapq.heappop(self._by_need[min(heads)[1]])[2] if heads else None


def _first_shape(job: Job, room: int) -> Shape:
    """What it asked for, or as much of that as there is room for; one whose size nobody has tried stays in one node."""
    first = job.spec.roles[0]
    if not job.spec.is_elastic or not first.gpus:
        return job.requested
    return replicas(max(first.least, min(job.spec.requested, room // first.gpus)))
