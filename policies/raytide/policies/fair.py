"""Weighted fair share over the tree of tenants, with guarantees that are borrowed and reclaimed.

Sources: hierarchical fair share as in Kubernetes' KAI scheduler and in YARN; with decayed use as in Slurm's multifactor
fair share (https://slurm.schedmd.com/fair_tree.html); guarantees, borrowing and reclaim as in Kueue's cohorts.

Rule: free GPUs go to the tenant that has least in proportion to its weight, from the root downwards, where what a
tenant has is what it holds and what it held before, with a half-life of one day. Inside a tenant jobs go by priority,
then in the order of submission; one that does not fit is passed by. A tenant below its guarantee whose jobs do not fit
gets GPUs back from tenants above theirs: preemptible jobs are suspended, the last started first, once they have run for
their tenant's ``reclaim_after_s``.
Limits: rigid jobs. GPUs are the dominant resource and the only one counted.
Starvation: possible; a large job can wait for ever while small ones keep coming, of its own tenant or of others that
have less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from raytide.core import NOTHING, Decision, EventDriven, Job, Shape, View
from raytide.policies.budget import Budget, needs

HALF_LIFE_S = 86_400.0
ROOT = ""


class Fair:
    """Fair share with memory.

    Args:
        half_life_s: After this time, past use counts half.
    """

    name = "fair"
    clock = EventDriven()

    def __init__(self, half_life_s: float = HALF_LIFE_S) -> None:
        self._half_life_s = half_life_s
        self._past_gpu_s: defaultdict[str, float] = defaultdict(float)
        self._seen_s: float | None = None
        self._held: dict[str, int] = {}

    def decide(self, view: View) -> Decision:
        """Start what is due from free GPUs, then reclaim what is guaranteed."""
        self._remember(view)
        round_ = _Round(view, self._past_gpu_s, self._half_life_s)
        round_.fill()
        wake_s = round_.reclaim()
        self._held = dict(round_.usage)
        return Decision(round_.shapes, round_.reasons, wake_at_s=wake_s)

    def _remember(self, view: View) -> None:
        """Let past use fade, and add what was held since the last decision."""
        if self._seen_s is not None:
            passed_s = view.now - self._seen_s
            fading = 0.5 ** (passed_s / self._half_life_s)
            for tenant in set(self._past_gpu_s) | set(self._held):
                self._past_gpu_s[tenant] = self._past_gpu_s[tenant] * fading + self._held.get(tenant, 0) * passed_s
        self._seen_s = view.now

    def why_waiting(self, view: View, job: Job) -> str:
        """What its tenant has, and what is missing."""
        tenant = view.tenants[job.spec.tenant]
        guarantee = f" of {tenant.guaranteed_gpus} guaranteed" if tenant.guaranteed_gpus else ""
        return f"tenant {tenant.tenant} holds {view.usage.get(tenant.tenant, 0)}{guarantee} GPUs: {needs(view, job)}"


class _Round:
    """One decision.

    Args:
        view: The instant.
        past_gpu_s: What tenants held before, faded.
        half_life_s: Turns GPUs held now into the same unit.
    """

    def __init__(self, view: View, past_gpu_s: dict[str, float], half_life_s: float) -> None:
        self._view = view
        self._past_gpu_s = past_gpu_s
        self._half_life_s = half_life_s
        self._budget = Budget(view, view.free_gpus, from_nothing=False)
        self.usage: defaultdict[str, int] = defaultdict(int, view.usage)
        self.shapes: dict[str, Shape] = {}
        self.reasons: dict[str, str] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)
        self._waiting: defaultdict[str, list[Job]] = defaultdict(list)
        for job in sorted(view.queue(), key=lambda job: -job.spec.priority):
            path = view.tenants.path(job.spec.tenant)
            self._waiting[path[0]].append(job)
            for below, above in zip(path, (*path[1:], ROOT), strict=True):
                self._children[above].add(below)

    def _share(self, tenant: str) -> float:
        """What a tenant has in proportion to its weight."""
        has = self.usage[tenant] * self._half_life_s + self._past_gpu_s.get(tenant, 0.0)
        return has / self._view.tenants[tenant].weight

    def fill(self) -> None:
        """Give free GPUs to whoever has least, one job at a time."""
        while self._budget.gpus and (job := self._next(ROOT)) is not None:
            self._start(job)

    def _next(self, above: str) -> Job | None:
        """The job to start next among those of ``above`` and below; takes it off its queue."""
        for tenant in sorted(self._children[above], key=lambda name: (self._share(name), name)):
            if (job := self._next(tenant)) is not None:
                return job
        queue = self._waiting[above]
        for place, job in enumerate(queue):
            if self._budget.take(job, job.requested):
                del queue[place]
                return job
        return None

    def _start(self, job: Job) -> None:
        self.shapes[job.job] = job.requested
        self._count(job, job.requested_gpus)

    def _count(self, job: Job, gpus: int) -> None:
        for tenant in self._view.tenants.path(job.spec.tenant):
            self.usage[tenant] += gpus

    # --- guarantees --------------------------------------------------------------------------

    def reclaim(self) -> float | None:
        """Preempt borrowers for tenants below their guarantee; returns when to look again, if some run too briefly."""
        look_again_s: list[float] = []
        for job in self._entitled():
            victims, too_early_s = self._victims(job)
            if victims is None:
                look_again_s += too_early_s
                continue
            for victim in victims:
                self.shapes[victim.job] = NOTHING
                self.reasons[victim.job] = f"reclaimed for {job.job}: tenant {job.spec.tenant} is below its guarantee"
                self._budget.give_back(victim, victim.shape)
                self._count(victim, -victim.gpus)
            if self._budget.take(job, job.requested):
                self._start(job)
        return min(look_again_s, default=None)

    def _entitled(self) -> Iterator[Job]:
        """Waiting jobs that their tenant's guarantee covers."""
        for tenant in self._view.tenants:
            for job in list(self._waiting[tenant.tenant]):
                if self.usage[tenant.tenant] + job.requested_gpus <= tenant.guaranteed_gpus:
                    yield job

    def _victims(self, job: Job) -> tuple[list[Job] | None, list[float]]:
        """Whom to suspend so that ``job`` fits; None, and when more can be suspended, if that is not enough yet."""
        missing = job.requested_gpus - self._budget.gpus
        victims: list[Job] = []
        early_s: list[float] = []
        over = {name: self._over(name) for name in {held.spec.tenant for held in self._view.holding.values()}}
        for held in reversed(list(self._view.holding.values())):
            tenant = self._view.tenants[held.spec.tenant]
            if missing <= 0:
                break
            if held.job in self.shapes or not held.spec.preemptible or over[tenant.tenant] < held.gpus:
                continue
            free_at_s = self._view.now + tenant.reclaim_after_s - held.run_s(self._view.now)
            if free_at_s > self._view.now:
                early_s.append(free_at_s)
                continue
            victims.append(held)
            over[tenant.tenant] -= held.gpus
            missing -= held.gpus
        return (victims, early_s) if missing <= 0 else (None, early_s)

    def _over(self, tenant: str) -> int:
        """GPUs that a tenant holds beyond its guarantee."""
        return self.usage[tenant] - self._view.tenants[tenant].guaranteed_gpus
