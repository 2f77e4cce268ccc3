"""All jobs and what they hold: the only code that changes states, slots and tenants' usage, always together."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from raytide.core.cluster import Cluster
from raytide.core.job import Job
from raytide.core.lifecycle import ENDED, JobState
from raytide.core.model import NOTHING, NOWHERE, JobId, JobSpec, Placement, Shape
from raytide.core.past import Past
from raytide.core.speed import SpeedModel, knows_shapes, speed_on
from raytide.core.tenants import TenantTree
from raytide.errors import RaytideError

_SENIORITY = attrgetter("seniority")


class UnknownJob(RaytideError):
    """An event or a question names a job that was never submitted."""


class JobTable:
    """Jobs by id, with the cluster they run on.

    Attributes:
        cluster: Nodes and placements.
        tenants: Quotas.
        live: Jobs that have not ended and do not rest, in the order of submission.
        waiting: Those that hold nothing.
        holding: Those that hold slots, in the order in which they were given them.
        resting: Jobs that their owners suspended; they are not live, because no policy shall see them.
        usage: GPUs held by each tenant and all below it.
    """

    def __init__(self, cluster: Cluster, tenants: TenantTree, speeds: Mapping[str, SpeedModel]) -> None:
        self.cluster = cluster
        self._speeds = speeds
        self.tenants = tenants
        self.live: dict[JobId, Job] = {}
        self.waiting: dict[JobId, Job] = {}
        self.holding: dict[JobId, Job] = {}
        self.resting: dict[JobId, Job] = {}
        self.usage: defaultdict[str, int] = defaultdict(int)
        self._all: dict[JobId, Job] = {}
        self._before: dict[JobId, tuple[Shape, Placement]] = {}
        self._target: dict[JobId, Placement] = {}
        self._queue: list[Job] = []

    def __getitem__(self, job: JobId) -> Job:
        try:
            return self._all[job]
        except KeyError:
            raise UnknownJob(f"there is no job {job}; it was never submitted") from None

    @property
    def all(self) -> Mapping[JobId, Job]:
        """Every job that was ever submitted."""
        return self._all

    def queue(self) -> Sequence[Job]:
        """Waiting jobs in the order of submission."""
        return self._queue

    # --- changes -----------------------------------------------------------------------------

    def submit(self, spec: JobSpec) -> Job:
        """Take in a job; it waits."""
        job = self._enter(spec)
        self.live[spec.job] = job
        self._enqueue(job)
        return job

    def _enter(self, spec: JobSpec) -> Job:
        if spec.job in self._all:
            raise RaytideError(f"job {spec.job} was submitted before: give every job an id of its own")
        job = self._all[spec.job] = Job(spec, len(self._all))
        return job

    def restore(self, now: float, spec: JobSpec, past: Past) -> Job:
        """Take in a job that a scheduler before this one knew, with all that it holds.

        Raises:
            PlacementError: Its slots are not there.
        """
        job = self._enter(spec)
        job.restore(past)
        if job.resting:
            self.resting[spec.job] = job
            return job
        self.live[spec.job] = job
        if job.waiting:
            self._enqueue(job)
            return job
        self.cluster.assign(spec.job, past.placement)
        self.holding[spec.job] = job
        if past.before is not None and past.target is not None:
            self._before[spec.job], self._target[spec.job] = past.before, past.target
        for tenant in self.tenants.path(spec.tenant):
            self.usage[tenant] += job.gpus
        self._hold(now, job, job.shape)
        return job

    def past(self, now: float, job: Job) -> Past:
        """What a job has behind it, for :meth:`restore`."""
        past = job.past(now, self.cluster.placement(job.job))
        return replace(past, before=self._before.get(job.job), target=self._target.get(job.job))

    def start(self, now: float, job: Job, shape: Shape, placement: Placement) -> None:
        """Give a waiting job slots."""
        self.cluster.assign(job.job, placement)
        job.become(now, JobState.STARTING, f"given {shape}")
        self._dequeue(job)
        self.holding[job.job] = job
        self._hold(now, job, shape)

    def resize(self, now: float, job: Job, shape: Shape, placement: Placement) -> None:
        """Begin to change a running job; until :meth:`settle` it holds its old and its new slots."""
        old = self.cluster.placement(job.job)
        self._before[job.job] = (job.shape, old)
        self._target[job.job] = placement
        self.cluster.assign(job.job, _union(old, placement))
        job.become(now, JobState.RESIZING, f"from {job.shape} to {shape}")
        job.resizes += 1
        self._hold(now, job, shape)

    def settle(self, now: float, job: Job, why: str) -> None:
        """A start or a resize is done."""
        target = self._target.pop(job.job, None)
        if target is not None:
            self.cluster.assign(job.job, target)
            del self._before[job.job]
            self._hold(now, job, job.shape)  # as fast as it is there, without the slots it has left
        job.become(now, JobState.RUNNING, why)

    def give_up_resize(self, now: float, job: Job, why: str) -> None:
        """A resize failed: back to what the job had."""
        shape, placement = self._before.pop(job.job)
        del self._target[job.job]
        self.cluster.assign(job.job, placement)
        self._hold(now, job, shape)
        job.become(now, JobState.RUNNING, why)

    def resume_training(self, now: float, job: Job, why: str) -> None:
        """A job that was told to suspend trains on; if it was being resized, as it was before."""
        if job.job in self._before:
            self.give_up_resize(now, job, why)
        else:
            job.become(now, JobState.RUNNING, why)

    def lose(self, now: float, job: Job, shape: Shape) -> None:
        """A node went with some of its slots, which the cluster took away already."""
        self.forget_change(job)
        self._hold(now, job, shape)

    def forget_change(self, job: Job) -> None:
        """A change that was going on will not be done."""
        self._before.pop(job.job, None)
        self._target.pop(job.job, None)

    def release(self, now: float, job: Job, state: JobState, why: str) -> None:
        """Take all slots from a job, which waits again or is over."""
        job.become(now, state, why)
        self.forget_change(job)
        if self.cluster.placement(job.job):
            self.cluster.assign(job.job, NOWHERE)
        self._hold(now, job, NOTHING)
        was_resting = self.resting.pop(job.job, None) is not None
        if self.holding.pop(job.job, None) is None and not was_resting:
            self._dequeue(job)
        if state in ENDED:
            job.ended_s = now
            self.live.pop(job.job, None)
        elif job.held:
            self._lay_down(job)
        else:
            self._enqueue(job)

    def rest(self, job: Job) -> None:
        """A job that waits shall rest."""
        self._dequeue(job)
        self._lay_down(job)

    def wake(self, now: float, job: Job) -> None:
        """A job that rests shall wait for its turn."""
        del self.resting[job.job]
        job.queued_s = now
        self.live[job.job] = job
        self._enqueue(job)

    def _lay_down(self, job: Job) -> None:
        self.resting[job.job] = job
        del self.live[job.job]

    def _enqueue(self, job: Job) -> None:
        self.waiting[job.job] = job
        insort(self._queue, job, key=_SENIORITY)

    def _dequeue(self, job: Job) -> None:
        del self.waiting[job.job]
        del self._queue[bisect_left(self._queue, job.seniority, key=_SENIORITY)]

    def _hold(self, now: float, job: Job, shape: Shape) -> None:
        before = job.gpus
        job.hold(now, shape, self._rate(job, shape))
        more = job.gpus - before
        if more:
            for tenant in self.tenants.path(job.spec.tenant):
                self.usage[tenant] += more

    def _rate(self, job: Job, shape: Shape) -> float:
        model = self._speeds.get(job.spec.model)
        if model is None or not shape:
            return 0.0
        if knows_shapes(model):
            return model.shape_speed(shape)
        return self.speed_at(model, job.spec.gpus(shape), self.cluster.placement(job.job))

    def change_tenants(self, tenants: TenantTree) -> None:
        """Other quotas from now on; usage is counted anew."""
        self.tenants = tenants
        self.usage.clear()
        for job in self.holding.values():
            for tenant in tenants.path(job.spec.tenant):
                self.usage[tenant] += job.gpus

    # --- questions ---------------------------------------------------------------------------

    def speed_at(self, model: SpeedModel, gpus: int, placement: Placement) -> float:
        """The speed of so many GPUs on the nodes of a placement; all wait for the slowest type of them."""
        types = {self.cluster.node(node).gpu_type for node in placement.nodes}
        models = [speed_on(model, gpu_type) for gpu_type in types] or [model]
        return min(one.speed(gpus, len(placement.gpus)) for one in models)

    def over_limit(self, job: Job, shape: Shape) -> str:
        """The tenant whose limit the job would break with this shape, with its figures; empty if none."""
        more = job.spec.gpus(shape) - job.gpus
        full = self.tenants.limiting(job.spec.tenant, self.usage, more) if more > 0 else None
        return f"tenant {full.tenant} holds {self.usage[full.tenant]} of its {full.limit_gpus} GPUs" if full else ""

    def validate(self) -> None:
        """Hold every invariant that concerns more than one record."""
        self.cluster.validate()
        assert self.live.keys() == self.waiting.keys() | self.holding.keys()
        assert not self.waiting.keys() & self.holding.keys()
        assert self.cluster.held.keys() == self.holding.keys()
        assert self._queue == sorted(self.waiting.values(), key=_SENIORITY)
        usage: defaultdict[str, int] = defaultdict(int)
        for job in self._all.values():
            assert (job.ended or job.resting) == (job.job not in self.live), job.story()
            assert job.resting == (job.job in self.resting), job.story()
            assert job.waiting == (job.job in self.waiting), job.story()
            assert job.spec.admits(job.shape), f"{job.job}: {job.shape}"
            if job.job not in self._target and job.state not in (JobState.STOPPING, JobState.SUSPENDING):
                assert self.cluster.placement(job.job).total == job.gpus, job.story()
            for tenant in self.tenants.path(job.spec.tenant):
                usage[tenant] += job.gpus
        assert all(self.usage[tenant] == usage[tenant] for tenant in usage.keys() | self.usage.keys())


def _union(first: Placement, second: Placement) -> Placement:
    """The least that holds both."""
    counts = dict(first.gpus)
    for node, count in second.gpus:
        counts[node] = max(count, counts.get(node, 0))
    return Placement(tuple(counts.items()))
