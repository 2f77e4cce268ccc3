"""First fit: FIFO in which smaller jobs overtake a large one that does not fit.

Rule: walk the queue in the order of submission and start whoever fits; running jobs keep what they have.
Limits: no preemption, no elasticity.
Starvation: possible; a large job can wait for ever while small ones keep coming.
"""

from __future__ import annotations

from raytide.core import Decision, EventDriven, Job, Shape, View
from raytide.policies.budget import Budget, needs, position


class FirstFit:
    """Order of submission, skipping what does not fit."""

    name = "first_fit"
    clock = EventDriven()

    def decide(self, view: View) -> Decision:
        """Start whoever fits."""
        budget = Budget(view, view.free_gpus, from_nothing=False)
        shapes: dict[str, Shape] = {}
        for job in view.queue():
            if not budget.gpus:
                break
            shape = job.requested
            if budget.take(job, shape):
                shapes[job.job] = shape
        return Decision(shapes)

    def why_waiting(self, view: View, job: Job) -> str:
        """Where it is, and what is missing."""
        return f"{position(view, job)}: {needs(view, job)}; smaller jobs may overtake"
