"""Jobs of a fixed batch in rounds, as Pollux's own simulator has them (OSDI'21): epochs end at whole seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from raytide.core import Placement, rigid
from raytide.core.events import Event
from raytide.sim.pollux.application import Application
from raytide.sim.pollux.progress import JobProgress, Running, advance
from raytide.sim.simulation import SimJob
from raytide.sim.traces.job import TraceJob

ROUND_S = 60.0


class FixedBatch:
    """A job that is only changed at the beginning of a round, and looks one round ahead.

    Args:
        app: What it trains.
        batch: Its total batch.
    """

    reports = True
    report_s = math.inf

    def __init__(self, app: Application, batch: int) -> None:
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
        """Nothing to tell: rounds come anyway, and with each it knows a round more."""
        self._advance(now)
        return None

    def _advance(self, now: float) -> None:
        if not self._running.holds_gpus:
            self._now = math.floor(now / ROUND_S) * ROUND_S
        while self._now + ROUND_S <= now:
            self._state = advance(self._state, self._running, self._now, ROUND_S, whole_seconds=True)
            self._now += ROUND_S


def rigid_jobs(trace: Sequence[TraceJob], applications: Mapping[str, Application]) -> list[SimJob]:
    """Jobs with the replicas and the batch that a Pollux workload gives them."""
    return [
        SimJob(
            rigid(job.job_id, job.tenant, job.submit_s, job.gpus), FixedBatch(applications[job.model], job.batch_size)
        )
        for job in trace
    ]
