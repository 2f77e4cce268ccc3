"""Jobs of a Pollux workload, as the simulator runs them and as they report to their scheduler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from raytide.core import JobSpec, Placement, Role, Training, goodput_of
from raytide.core.events import Event, Trained
from raytide.errors import ConfigError
from raytide.sim.pollux.application import Application
from raytide.sim.pollux.progress import JobProgress, Running, advance, time_to_completion
from raytide.sim.simulation import SimJob
from raytide.sim.traces.job import TraceJob

FIRST_REPORT_S = 10.0
"""After each start a job has trained for this long when it reports ..."""

REPORT_S = 60.0
"""... and then again and again."""

ONE_REPLICA = frozenset({"ncf"})
"""Applications that Pollux never gives more than one GPU."""


class Adaptive:
    """A job that chooses its batch size itself, by what it measured: at every start, and whenever it reports.

    Args:
        job: Its name.
        app: What it trains.
    """

    reports = True

    def __init__(self, job: str, app: Application) -> None:
        self._job = job
        self._app = app
        self._state = JobProgress()
        self._running = Running(app, (), app.limits.smallest_batch)
        self._now = 0.0
        self._training = Training()
        self.report_s = math.inf

    def run(self, now: float, placement: Placement, delay_s: float) -> None:
        self._advance(now)
        self._state = self._state.delayed(delay_s)
        self._choose(tuple(count for _, count in placement.gpus))
        self.report_s = now + delay_s + FIRST_REPORT_S

    def pause(self, now: float) -> None:
        self._advance(now)
        self._running = Running(self._app, (), self._app.limits.smallest_batch)

    def finish_s(self) -> float:
        return self._now + time_to_completion(self._state, self._running)

    def report(self, now: float) -> Event | None:
        """Where it is, with its noise and the latest step time if it trains; it then chooses its batch anew."""
        self._advance(now)
        if now >= self.report_s:
            self.report_s = now + REPORT_S
        if self._state.completed_s is not None:
            return None
        if self._state.delay_s == 0.0 and self._running.holds_gpus:
            self._measure()
            self._choose(self._running.placement)
        return Trained(self._job, replace(self._training, samples=self._training.samples[-1:]))

    def _advance(self, now: float) -> None:
        self._state = advance(self._state, self._running, self._now, now - self._now)
        self._now = now

    def _choose(self, placement: tuple[int, ...]) -> None:
        model = goodput_of(self._app.limits, self._training.samples, self._training.noise)
        split = model.split(sum(placement), len(placement))
        self._running = Running(self._app, placement, split.batch)

    def _measure(self) -> None:
        state, app = self._state, self._app
        begin, end = app.boundaries[state.epoch : state.epoch + 2]
        known = self._training.with_sample(self._running.sample())
        epochs = state.epoch + (state.progress - begin) / (end - begin)
        self._training = Training(
            known.samples, app.noise(self._running.total_batch, state.epoch), state.progress, epochs
        )


def adaptive_jobs(trace: Sequence[TraceJob], applications: Mapping[str, Application], most_gpus: int) -> list[SimJob]:
    """Jobs whose size and batch are free; their declared work is their number of epochs.

    Args:
        trace: A Pollux workload.
        applications: See :func:`~raytide.sim.pollux.loading.load_applications`.
        most_gpus: More than these no job is given.
    """
    return [_adaptive(job, _application(job, applications), most_gpus) for job in trace]


def _adaptive(job: TraceJob, app: Application, most_gpus: int) -> SimJob:
    most = 1 if app.name in ONE_REPLICA else min(app.limits.most_replicas, most_gpus)
    spec = JobSpec(
        job=job.job_id,
        tenant=job.tenant,
        submitted_s=job.submit_s,
        roles=(Role("replica", 1, most),),
        requested=min(job.gpus, most),
        work=float(app.limits.epochs),
        model=app.name,
        batch=app.limits,
    )
    return SimJob(spec, Adaptive(job.job_id, app))


def _application(job: TraceJob, applications: Mapping[str, Application]) -> Application:
    try:
        return applications[job.model]
    except KeyError:
        problem = f"job {job.job_id}: there is no application {job.model!r}"
        raise ConfigError("trace", problem, f"There are: {', '.join(applications)}") from None
