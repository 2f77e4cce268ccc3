"""What a policy sees: the jobs and the cluster at one instant, to be read only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from raytide.core.cluster import Cluster
from raytide.core.costs import Costs
from raytide.core.goodput import Goodput, goodput_of
from raytide.core.job import Job
from raytide.core.model import JobId, Placement, Shape
from raytide.core.speed import LinearSpeed, SpeedModel, knows_shapes, speed_on
from raytide.core.table import JobTable
from raytide.core.tenants import TenantTree

_UNKNOWN = LinearSpeed()


@dataclass(frozen=True, slots=True)
class View:
    """One instant.

    Attributes:
        now: Seconds on the controller's clock.
        jobs: Every job that has not ended and that its owner has not suspended, by id, in the order of submission.
        waiting: Those that hold nothing; see :meth:`queue` for their order.
        holding: Those that hold slots, in the order in which they were given them.
        arrived: Jobs that were submitted, or resumed by their owner, since the last decision, in order.
        ended: Jobs that ended, or were suspended by their owner, since the last decision, in order.
        cluster: Nodes and placements; for trials, between checkpoint and rollback.
        tenants: Quotas.
        usage: GPUs held by each tenant and all below it.
        speeds: Speed models by the model that a job trains.
        costs: What changes cost.
    """

    now: float
    jobs: Mapping[JobId, Job]
    waiting: Mapping[JobId, Job]
    holding: Mapping[JobId, Job]
    arrived: tuple[Job, ...]
    ended: tuple[Job, ...]
    cluster: Cluster
    tenants: TenantTree
    usage: Mapping[str, int]
    speeds: Mapping[str, SpeedModel]
    costs: Costs
    _table: JobTable

    def speed(self, job: Job, gpu_type: str | None = None) -> SpeedModel:
        """How fast the job is at each size, on GPUs of one type or wherever; linear where nothing is known."""
        model = self.speeds.get(job.spec.model, _UNKNOWN)
        return model if gpu_type is None else speed_on(model, gpu_type)

    def speed_at(self, job: Job, placement: Placement) -> float:
        """How fast the job would be there: as fast as on the slowest type of GPU among them."""
        return self._table.speed_at(self.speed(job), placement.total, placement)

    def goodput(self, job: Job) -> Goodput:
        """How fast a job whose batch size is free progresses, by what it has reported."""
        assert job.spec.batch is not None
        return goodput_of(job.spec.batch, job.training.samples, job.training.noise)

    def shape_speed(self, job: Job, shape: Shape) -> float:
        """How fast the job would be with this shape.

        Where nothing is known of a job with several roles, the scarcest one counts most: half the harmonic mean of two.
        """
        model = self.speed(job)
        if knows_shapes(model):
            return model.shape_speed(shape)
        if len(shape.counts) > 1:
            return 1.0 / sum(1.0 / count for _, count in shape.counts)
        return model.speed(job.spec.gpus(shape))

    def queue(self) -> Sequence[Job]:
        """Waiting jobs in the order of submission."""
        return self._table.queue()

    def over_limit(self, job: Job, shape: Shape) -> str:
        """The tenant whose limit the job would break with this shape, in words; empty if none."""
        return self._table.over_limit(job, shape)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs.values())

    @property
    def total_gpus(self) -> int:
        """GPUs of the cluster that are not used by others."""
        return self.cluster.total - self.cluster.taken

    @property
    def free_gpus(self) -> int:
        """GPUs that can be given out now."""
        return self.cluster.free
