"""EASY backfilling: FIFO in which others may overtake the first waiting job, if they do not delay it.

Source: Lifka, *The ANL/IBM SP Scheduling System*, JSSPP 1995 (the EASY scheduler); the rule as Mu'alem and Feitelson
state it, IEEE TPDS 12(6), 2001.

Rule: start jobs in the order of submission while they fit. For the first one that does not, compute from the declared
durations of running jobs when it will fit (its *shadow time*), and how many GPUs will be left then. A later job starts
now if it fits and either ends before the shadow time or needs no more than what will be left.
Limits: rigid jobs, no preemption, durations as declared. A running job without one never ends as far as this policy
knows, so behind it nothing is promised to the first waiting job; a waiting one without one overtakes into what is left
only. Jobs that run longer than declared are taken to end now. Jobs of other tenants pass one that only its own
tenant's limit holds back.
Starvation: none where all jobs declare their durations; possible behind one that does not.
"""

from __future__ import annotations

import math

from raytide.core import Decision, EventDriven, Job, Shape, View
from raytide.policies.budget import Budget, needs, position


class EasyBackfill:
    """FIFO with a reservation for the first waiting job."""

    name = "easy_backfill"
    clock = EventDriven()

    def decide(self, view: View) -> Decision:
        """Start from the head; then fill up behind the reservation."""
        budget = Budget(view, view.free_gpus, from_nothing=False)
        shapes: dict[str, Shape] = {}
        reservation: _Reservation | None = None
        for job in view.queue():
            if not budget.gpus:
                break
            if (reservation is None or reservation.allows(job)) and budget.take(job, job.requested):
                shapes[job.job] = job.requested
                if reservation is not None:
                    reservation.used(job)
            elif reservation is None:
                if job.requested_gpus > budget.gpus:
                    reservation = _Reservation(view, job, budget.gpus, [view.jobs[name] for name in shapes])
                budget.reserve_limits(job)
        return Decision(shapes)

    def why_waiting(self, view: View, job: Job) -> str:
        """Where it is, and what is missing."""
        return f"{position(view, job)}: {needs(view, job)}; jobs may overtake if they do not delay the first one"


class _Reservation:
    """When and with how much to spare the first waiting job will fit.

    Args:
        view: The instant.
        head: The first waiting job.
        free: GPUs that are left now.
        started: Jobs that this decision starts.
    """

    def __init__(self, view: View, head: Job, free: int, started: list[Job]) -> None:
        self._now = view.now
        ends = [(self._end_s(job), job.gpus) for job in view.holding.values()]
        ends += [(self._end_s(job), job.requested_gpus) for job in started]
        self._shadow_s = math.inf
        for end_s, gpus in sorted(ends):
            free += gpus
            if free >= head.requested_gpus:
                self._shadow_s = end_s
                break
        self._spare = free - head.requested_gpus if self._shadow_s < math.inf else 0

    def _end_s(self, job: Job) -> float:
        declared = job.spec.duration_s
        return math.inf if declared is None else self._now + max(0.0, declared - job.run_s(self._now))

    def _ends_before(self, job: Job) -> bool:
        return self._shadow_s == math.inf or self._end_s(job) <= self._shadow_s

    def allows(self, job: Job) -> bool:
        """Whether the job may overtake."""
        return self._ends_before(job) or job.requested_gpus <= self._spare

    def used(self, job: Job) -> None:
        """The job overtakes: one that is still there at the shadow time uses what was to spare."""
        if not self._ends_before(job):
            self._spare -= job.requested_gpus
