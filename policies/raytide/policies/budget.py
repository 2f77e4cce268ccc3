"""What is left to give out while a policy walks through jobs: GPUs, and room below tenants' limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from raytide.core import NOTHING, Decision, Job, Shape, View


class Budget:
    """GPUs that a policy has not given to anybody yet.

    Args:
        view: The instant.
        gpus: How many there are to give.
        from_nothing: Count tenants' use from zero, for policies that decide about every job anew.
    """

    def __init__(self, view: View, gpus: int, *, from_nothing: bool) -> None:
        self.gpus = gpus
        self._tenants = view.tenants
        self._usage: defaultdict[str, int] = defaultdict(int, {} if from_nothing else view.usage)
        self._limited = any(tenant.limit_gpus is not None for tenant in view.tenants)

    def take(self, job: Job, shape: Shape) -> bool:
        """Take what ``shape`` of ``job`` needs; False, and nothing taken, if it does not fit."""
        gpus = job.spec.gpus(shape)
        if gpus > self.gpus or self.is_limited(job, gpus):
            return False
        self._count(job, gpus)
        return True

    def is_limited(self, job: Job, gpus: int) -> bool:
        """Whether so many GPUs more would break the limit of the job's tenant, or of one above it."""
        return self._limited and self._tenants.limiting(job.spec.tenant, self._usage, gpus) is not None

    def take_requested(self, job: Job) -> bool:
        """:meth:`take` of what the job asked for, whose size is known already."""
        if self._limited or job.requested_gpus > self.gpus:
            return self.take(job, job.requested)
        self.gpus -= job.requested_gpus
        return True

    def give_back(self, job: Job, shape: Shape) -> None:
        """Take back what ``shape`` of ``job`` was given."""
        self._count(job, -job.spec.gpus(shape))

    def _count(self, job: Job, gpus: int) -> None:
        self.gpus -= gpus
        if self._limited:
            for tenant in self._tenants.path(job.spec.tenant):
                self._usage[tenant] += gpus


def walk(view: View, ordered: Iterable[Job], wake_at_s: float | None = None) -> Decision:
    """Give jobs what they requested, in this order; who does not fit is skipped, or preempted if it runs.

    Jobs that may not be preempted keep what they have, whatever their place in the order.
    """
    budget = Budget(view, view.total_gpus, from_nothing=True)
    shapes: dict[str, Shape] = {}
    for job in view.holding.values():
        if not job.spec.preemptible:
            budget.take(job, job.shape)
    holding = len(view.holding)
    for job in ordered:
        if job.gpus:
            holding -= 1
            if not job.spec.preemptible:
                continue
        if job.requested_gpus <= budget.gpus and budget.take_requested(job):
            if job.shape is not job.requested and job.shape != job.requested:
                shapes[job.job] = job.requested
        elif job.gpus:
            shapes[job.job] = NOTHING
        if not budget.gpus and not holding:
            break  # whoever is left waits already
    return Decision(shapes, wake_at_s=wake_at_s)


def position(view: View, job: Job) -> str:
    """Where a waiting job is in the order of submission, in words."""
    return f"position {view.queue().index(job) + 1} of {len(view.waiting)}"


def needs(view: View, job: Job) -> str:
    """What a waiting job needs and what there is, in words."""
    return f"needs {job.requested_gpus} GPUs, {view.free_gpus} of {view.total_gpus} are free"
