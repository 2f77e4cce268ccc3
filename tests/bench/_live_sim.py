"""The simulator's prediction of a live run, from what was measured in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from _support import median

from raytide.actors.scheduler.settings import LIVE_COSTS
from raytide.core import Controller, ControllerConfig, JobSpec, Node, Placement, Role, fit_curve, replicas
from raytide.core import Measurement as Point
from raytide.core.events import Event, Measured
from raytide.policies.placement import Pack
from raytide.policies.registry import make_policy
from raytide.sim.simulation import SimJob, Simulation

if TYPE_CHECKING:
    from live import Ran

REPORT_S = 3.0
"""A job tells its throughput about so long after it has a new size."""


def predicted_jct_s(policy: str, runs: Sequence[Ran], nodes: int, slots: int) -> dict[str, float]:
    """Completion times by job.

    Args:
        policy: By which they were scheduled.
        runs: What was measured.
        nodes: Of the cluster.
        slots: Of each node.
    """
    start_s = median([ran.first_step_s - ran.started_s for ran in runs])
    config = ControllerConfig(instant=True, costs=LIVE_COSTS)
    cluster = [Node(f"n{number}", slots) for number in range(nodes)]
    controller = Controller(make_policy(policy), Pack(), cluster, config=config)
    jobs = [SimJob(_spec(ran), _Live(ran, start_s)) for ran in runs]
    result = Simulation(controller, jobs).run()
    return {job.job: (job.ended_s or math.inf) - job.spec.submitted_s for job in result.jobs}


def _spec(ran: Ran) -> JobSpec:
    job = ran.job
    role = Role("replica", job.least, job.most)
    return JobSpec(job.name, job.tenant, ran.submitted_s, (role,), job.start, work=float(job.samples))


class _Live:
    """A job that keeps its old speed while newcomers come up, and tells its throughput.

    Args:
        ran: What was measured of it.
        start_s: From a start, or from a decision to grow, to steps of that size.
    """

    reports = True

    def __init__(self, ran: Ran, start_s: float) -> None:
        self._name = ran.job.name
        self._left = float(ran.job.samples)
        self._start_s = start_s
        self._rates = _complete(ran.rates, ran.job.most)
        self._size = 0
        self._rate = 0.0
        self._seen_s = 0.0
        self._next: tuple[float, float] | None = None
        self.report_s = math.inf

    def run(self, now: float, placement: Placement, delay_s: float) -> None:
        """From now on it runs there; it keeps the speed it has until all of its processes are up."""
        del delay_s  # measured, not assumed
        self._account(now)
        grows = placement.total > self._size
        self._size = placement.total
        at_s = now + (self._start_s if grows else 0.0)
        self._next = (at_s, self._rates[self._size])
        self.report_s = at_s + REPORT_S

    def pause(self, now: float) -> None:
        """From now on it holds nothing."""
        self._account(now)
        self._rate, self._size, self._next, self.report_s = 0.0, 0, None, math.inf

    def finish_s(self) -> float:
        """When it will be done if nothing changes."""
        at_s, rate = self._next or (math.inf, 0.0)
        before = self._left / self._rate if self._rate else math.inf
        if self._seen_s + before <= at_s or not rate:
            return self._seen_s + before
        return at_s + (self._left - self._rate * (at_s - self._seen_s)) / rate

    def report(self, now: float) -> Event | None:
        """Its throughput at the size it has."""
        if now < self.report_s:
            return None
        self.report_s = math.inf
        return Measured(self._name, replicas(self._size), self._rates[self._size])

    def _account(self, now: float) -> None:
        if self._next is not None and self._next[0] <= now:
            at_s, rate = self._next
            self._left -= self._rate * (at_s - self._seen_s)
            self._seen_s, self._rate, self._next = at_s, rate, None
        self._left -= self._rate * (now - self._seen_s)
        self._seen_s = now


def _complete(rates: Mapping[int, float], most: int) -> dict[int, float]:
    """Rates at all sizes: as measured, and by a curve through them where the job has not been."""
    curve = fit_curve([Point(size, 1, 1.0 / rate) for size, rate in rates.items()])
    return {size: rates.get(size, curve.speed(size, 1)) for size in range(1, most + 1)}
