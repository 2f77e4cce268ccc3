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
        self._limits_above: dict[str, tuple[tuple[str, int], ...]] = {}

    def take(self, job: Job, shape: Shape) -> bool:
        """Take what ``shape`` of ``job`` needs; False, and nothing taken, if it does not fit."""
        return self.take_gpus(job, job.spec.gpus(shape))

    def take_gpus(self, job: Job, gpus: int) -> bool:
        """:meth:`take` of so many GPUs."""
        if gpus > self.gpus:
            return False
        if self._limited:
            limits = self._limits(job.spec.tenant)
            for tenant, limit_gpus in limits:
                if self._usage[tenant] + gpus > limit_gpus:
                    return False
            for tenant, _ in limits:
                self._usage[tenant] += gpus
        self.gpus -= gpus
        return True

    def is_limited(self, job: Job, gpus: int) -> bool:
        """Whether so many GPUs more would break the limit of the job's tenant, or of one above it."""
        limits = self._limits(job.spec.tenant) if self._limited else ()
        return any(self._usage[tenant] + gpus > limit_gpus for tenant, limit_gpus in limits)

    def reserve_limits(self, job: Job) -> None:
        """Count what the job asked for against its tenants' limits, so that others below them do not overtake it."""
        for tenant, _ in self._limits(job.spec.tenant):
            self._usage[tenant] += job.requested_gpus

    def give_back(self, job: Job, shape: Shape) -> None:
        """Take back what ``shape`` of ``job`` was given."""
        gpus = job.spec.gpus(shape)
        self.gpus += gpus
        for tenant, _ in self._limits(job.spec.tenant):
            self._usage[tenant] -= gpus

    def _limits(self, tenant: str) -> tuple[tuple[str, int], ...]:
        """The limits that hold for a tenant: its own and those above it."""
        known = self._limits_above.get(tenant)
        if known is None:
            path = (self._tenants[name] for name in self._tenants.path(tenant))
            known = tuple((above.tenant, above.limit_gpus) for above in path if above.limit_gpus is not None)
            self._limits_above[tenant] = known
        return known


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
        if budget.take_gpus(job, job.requested_gpus):
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
