"""Jobs of a fixed batch in rounds, as Pollux's own simulator has them (OSDI'21): epochs end at whole seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from raytide.core import JobSpec, Placement, Role, SpeedModel, split_batch
from raytide.core.events import Event, Progressed
from raytide.sim.pollux.application import Application
from raytide.sim.pollux.progress import JobProgress, Running, advance, iteration_time
from raytide.sim.pollux.workload import ONE_REPLICA
from raytide.sim.simulation import SimJob
from raytide.sim.traces.job import TraceJob

ROUND_S = 60.0


class FixedBatch:
    """A job that is only changed at the beginning of a round, and looks one round ahead.

    Args:
        job: Its name.
        app: What it trains.
        batch: Its total batch.
    """

    reports = True
    report_s = math.inf

    def __init__(self, job: str, app: Application, batch: int) -> None:
        self._job = job
        self._app = app
        self._batch = batch
        self._state = JobProgress()
        self._running = Running(app, (), batch)
        self._now = 0.0

    def run(self, now: float, placement: Placement, delay_s: float) -> None:
        self._advance(now)
        self._state = self._state.delayed(delay_s)
        self._running = Running(self._app, tuple(count for _, count in placement.gpus), self._batch)

    def pause(self, now: float) -> None:
        self._advance(now)
        self._running = Running(self._app, (), self._batch)

    def finish_s(self) -> float:
        ahead = advance(self._state, self._running, self._now, ROUND_S, whole_seconds=True)
        return math.inf if ahead.completed_s is None else ahead.completed_s

    def report(self, now: float) -> Event | None:
        """Iterations done, by what Pollux's oracle of the remaining ones says."""
        self._advance(now)
        if self._state.completed_s is not None:
            return None
        return Progressed(self._job, self.iterations - self._app.remaining_iterations(self._batch, self._state.epoch))

    @property
    def iterations(self) -> float:
        """Those that are left at the beginning: the work of the job."""
        return self._app.remaining_iterations(self._batch, 0)

    def _advance(self, now: float) -> None:
        if not self._running.holds_gpus:
            self._now = math.floor(now / ROUND_S) * ROUND_S
        while self._now + ROUND_S <= now:
            self._state = advance(self._state, self._running, self._now, ROUND_S, whole_seconds=True)
            self._now += ROUND_S


def rigid_jobs(trace: Sequence[TraceJob], applications: Mapping[str, Application]) -> list[SimJob]:
    """Jobs with the replicas and the batch that a Pollux workload gives them."""
    return [_job(job, applications[job.model], job.gpus, job.gpus) for job in trace]


def elastic_jobs(trace: Sequence[TraceJob], applications: Mapping[str, Application]) -> list[SimJob]:
    """Jobs of the same batch whose number of replicas is free; see :func:`speeds` for what is known of them."""
    return [_elastic(job, applications[job.model]) for job in trace]


def _elastic(job: TraceJob, app: Application) -> SimJob:
    most = 1 if app.name in ONE_REPLICA else job.batch_size // app.limits.min_local
    return _job(job, app, 1, most)


def _job(job: TraceJob, app: Application, least: int, most: int) -> SimJob:
    workload = FixedBatch(job.job_id, app, job.batch_size)
    spec = JobSpec(
        job=job.job_id,
        tenant=job.tenant,
        submitted_s=job.submit_s,
        roles=(Role("replica", least, most),),
        requested=min(max(job.gpus, least), most),
        work=workload.iterations,
        model=_model(job),
    )
    return SimJob(spec, workload)


def speeds(
    trace: Sequence[TraceJob], applications: Mapping[str, Application], gpus_per_node: int
) -> dict[str, SpeedModel]:
    """Iterations per second of each model and batch in a trace, on nodes that are filled one after another."""
    return {_model(job): _PackedSpeed(applications[job.model], job.batch_size, gpus_per_node) for job in trace}


def _model(job: TraceJob) -> str:
    return f"{job.model}/{job.batch_size}"


class _PackedSpeed:
    def __init__(self, app: Application, batch: int, gpus_per_node: int) -> None:
        self._app, self._batch, self._gpus_per_node = app, batch, gpus_per_node
        self._known: dict[int, float] = {}

    def speed(self, gpus: int, nodes: int = 1) -> float:
        if gpus not in self._known:
            full, rest = divmod(gpus, self._gpus_per_node)
            split = split_batch(self._app.limits, self._batch, gpus, accumulate_alone=True)
            placement = (*[self._gpus_per_node] * full, rest)
            self._known[gpus] = 1.0 / iteration_time(self._app, placement, split)
        return self._known[gpus]
