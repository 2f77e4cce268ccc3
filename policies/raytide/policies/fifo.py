"""FIFO: first come, first served, and nobody overtakes.

Rule: jobs start in the order of submission with what they requested and keep it until they end. The first one that
does not fit holds up all behind it, and GPUs idle in front of it.
Limits: no preemption, no elasticity. Jobs of other tenants pass one that only its own tenant's limit holds back.
Starvation: none; each job waits for earlier ones only.
"""

from __future__ import annotations

from raytide.core import Decision, EventDriven, Job, Shape, View
from raytide.policies.budget import Budget, needs, position


class Fifo:
    """Strict order of submission."""

    name = "fifo"
    clock = EventDriven()

    def decide(self, view: View) -> Decision:
        """Start jobs from the head of the queue while they fit."""
        budget = Budget(view, view.free_gpus, from_nothing=False)
        shapes: dict[str, Shape] = {}
        for job in view.queue():
            shape = job.requested
            if budget.take(job, shape):
                shapes[job.job] = shape
            elif job.requested_gpus > budget.gpus:
                break
            else:
                budget.reserve_limits(job)
        return Decision(shapes)

    def why_waiting(self, view: View, job: Job) -> str:
        """Who is ahead, and what is missing."""
        return f"{position(view, job)}: {needs(view, job)}; nobody overtakes"
