"""Discrete events around the controller: arrivals, ends, costs of changes, lost nodes.

The controller is the one of the live scheduler; this file plays the world. Everything of one instant is given to it
at once: ends before arrivals, arrivals in the order of (time, place in the trace).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from raytide.core import Controller, Costs, Job, JobSpec, Placement, TenantTree
from raytide.core.commands import Command, Refuse, Scale, Start, Stop, Suspend, Wake
from raytide.core.events import Event, Finished, Submitted, Timer
from raytide.sim.history import Ledger, Timeline
from raytide.sim.workload import Workload


@dataclass(frozen=True, slots=True)
class SimJob:
    """A job of a trace, and how it progresses.

    Attributes:
        spec: What is submitted.
        workload: Its work.
        costs: What changes cost this job, if not what they cost in the whole simulation.
    """

    spec: JobSpec
    workload: Workload
    costs: Costs | None = None


@dataclass(frozen=True)
class SimResult:
    """A finished simulation.

    Attributes:
        jobs: The controller's records, in the order of submission; all have ended or can never run.
        timeline: The cluster over time.
        total_gpus: GPUs of the cluster at the end.
        ledger: Who held how many GPUs when.
        tenants: Quotas at the end.
    """

    jobs: Sequence[Job]
    timeline: Timeline
    total_gpus: int
    ledger: Ledger
    costs: Costs
    tenants: TenantTree


class Simulation:
    """Runs jobs through a controller, whose changes have to be instant; what they cost is in its configuration.

    Args:
        controller: With its policy, placer and nodes.
        jobs: The trace; in any order.
        faults: Events at given times, in their order: nodes that join, drain or are lost. Those after the last job
            are left out, so they need not end.
    """

    def __init__(
        self,
        controller: Controller,
        jobs: Iterable[SimJob],
        faults: Iterable[tuple[float, Event]] = (),
    ) -> None:
        assert controller.config.instant, "the simulator accounts for costs itself"
        self._controller = controller
        self._arrivals = sorted(jobs, key=lambda job: job.spec.submitted_s)
        self._costs = controller.config.costs
        self._faults = iter(faults)
        self._fault = next(self._faults, None)
        self._workloads: dict[str, Workload] = {}
        self._costs_of: dict[str, Costs] = {}
        self._ends: list[tuple[float, int, str]] = []
        self._end_of: dict[str, tuple[float, int]] = {}
        self._reporting: dict[str, None] = {}
        self._number = 0
        self._arrived = 0
        self._wake_s = math.inf
        self.timeline = Timeline()
        self._ledger = Ledger()

    def run(self, on_instant: Callable[[float, int], None] | None = None) -> SimResult:
        """Simulate to the end.

        Args:
            on_instant: Called after each instant with the time and the number of jobs that arrived, for progress
                bars and invariants.
        """
        while (now := self._next_s()) < math.inf:
            commands = self._controller.tick(now, self._events_at(now))
            for command in commands:
                self._carry_out(now, command)
            table = self._controller.table
            self.timeline.add(now, table.cluster, self._ledger.held, len(table.waiting))
            if on_instant is not None:
                on_instant(now, self._arrived)
        table = self._controller.table
        jobs = list(table.all.values())
        return SimResult(jobs, self.timeline, table.cluster.total, self._ledger, self._costs, table.tenants)

    # --- what happens ------------------------------------------------------------------------

    def _next_s(self) -> float:
        while self._ends and self._end_of.get(self._ends[0][2]) != self._ends[0][:2]:
            heapq.heappop(self._ends)  # the job was changed meanwhile
        times = [self._wake_s, *(self._workloads[name].report_s for name in self._reporting)]
        if self._ends:
            times.append(self._ends[0][0])
        if self._arrived < len(self._arrivals):
            times.append(self._arrivals[self._arrived].spec.submitted_s)
        if self._fault is not None and (self._arrived < len(self._arrivals) or self._controller.table.live):
            times.append(self._fault[0])
        return min(times)

    def _events_at(self, now: float) -> list[Event]:
        happened: list[Event] = []
        while self._ends and self._ends[0][0] <= now:
            at_s, number, name = heapq.heappop(self._ends)
            if self._end_of.get(name) == (at_s, number):
                self._forget(now, name)
                happened.append(Finished(name))
        happened += self._reports(now)
        while self._fault is not None and self._fault[0] <= now:
            happened.append(self._fault[1])
            self._fault = next(self._faults, None)
        while self._arrived < len(self._arrivals) and self._arrivals[self._arrived].spec.submitted_s <= now:
            job = self._arrivals[self._arrived]
            self._arrived += 1
            self._workloads[job.spec.job] = job.workload
            if job.costs is not None:
                self._costs_of[job.spec.job] = job.costs
            happened.append(Submitted(job.spec))
        if self._wake_s <= now:
            self._wake_s = math.inf
            happened.append(Timer())
        return happened

    def _reports(self, now: float) -> Iterator[Event]:
        for name in self._reporting:
            event = self._workloads[name].report(now)
            self._expect_end(name)  # a job may choose its batch anew when it reports
            if event is not None:
                yield event

    # --- what is done ------------------------------------------------------------------------

    def _carry_out(self, now: float, command: Command) -> None:
        match command:
            case Start(job, _, placement, resume):
                costs = self._costs_of.get(job, self._costs)
                self._run(now, job, placement, costs.resume_s if resume else costs.start_s)
            case Scale(job, _, placement):
                self._run(now, job, placement, self._costs_of.get(job, self._costs).resize_s)
            case Suspend(job):
                self._workloads[job].pause(now)
                self._end_of.pop(job, None)
                self._reporting.pop(job, None)
                self._ledger.hold(now, job, 0)
            case Stop(job) | Refuse(job):
                self._forget(now, job)
            case Wake(at_s):
                self._wake_s = at_s

    def _run(self, now: float, job: str, placement: Placement, delay_s: float) -> None:
        self._workloads[job].run(now, placement, delay_s)
        if self._workloads[job].reports:
            self._reporting[job] = None
        self._ledger.hold(now, job, placement.total, delay_s)
        self._expect_end(job)

    def _expect_end(self, job: str) -> None:
        self._number += 1
        at_s = self._workloads[job].finish_s()
        self._end_of.pop(job, None)
        if at_s < math.inf:
            self._end_of[job] = (at_s, self._number)
            heapq.heappush(self._ends, (at_s, self._number, job))

    def _forget(self, now: float, job: str) -> None:
        self._ledger.hold(now, job, 0)
        self._end_of.pop(job, None)
        self._reporting.pop(job, None)
        self._workloads.pop(job, None)
