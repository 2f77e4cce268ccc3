"""The controller: events in, commands out. The simulator and the live scheduler run this same object.

It reads no clock, does no I/O and draws no random numbers. One call of :meth:`Controller.tick` is one round: events
are applied, the policy decides if its clock says so, the placer finds slots, and the difference becomes commands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from raytide.core.cluster import Cluster
from raytide.core.commands import Command, Wake
from raytide.core.costs import Costs
from raytide.core.events import Event
from raytide.core.handlers import Handlers
from raytide.core.job import Job
from raytide.core.lifecycle import JobState
from raytide.core.model import NOWHERE, JobId, Node, Placement, Shape
from raytide.core.policy import Decision, EventDriven, Placer, Policy, PolicyError
from raytide.core.speed import SpeedModel
from raytide.core.table import JobTable
from raytide.core.tenants import TenantTree
from raytide.core.view import View

NO_TENANTS = TenantTree()


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """How a controller works.

    Attributes:
        instant: What is commanded is done at once: starts, resizes and suspensions need no answer. For replays
            in which they cost nothing, or in which the simulator alone accounts for their cost.
        most_gpus: GPUs the cluster can grow to; what it has, if None.
        speeds: What is known of jobs' speeds, by the model they train.
        costs: What changes cost a job that has no costs of its own; some policies weigh it, the simulator charges it.
    """

    instant: bool = False
    most_gpus: int | None = None
    speeds: Mapping[str, SpeedModel] = field(default_factory=dict, hash=False)
    costs: Costs = field(default_factory=Costs)


class Controller:
    """Schedules jobs.

    Args:
        policy: How many slots each job has.
        placer: Where they are.
        nodes: The cluster to begin with.
        tenants: Quotas to begin with.
        config: How it works.
    """

    def __init__(
        self,
        policy: Policy,
        placer: Placer,
        nodes: Iterable[Node] = (),
        tenants: TenantTree = NO_TENANTS,
        config: ControllerConfig | None = None,
    ) -> None:
        self.policy = policy
        self.placer = placer
        self.config = config or ControllerConfig()
        self.table = JobTable(Cluster(nodes), tenants, self.config.speeds)
        self._handlers = Handlers(self.table, placer, self.config.instant, self.config.most_gpus)
        self._now = 0.0
        self._decided_s: float | None = None
        self._next_round_s = 0.0
        self._wake_s: float | None = None
        self._told_wake_s: float | None = None

    def tick(self, now: float, events: Sequence[Event]) -> list[Command]:
        """Apply the events of one instant, in order, and decide.

        Args:
            now: Seconds on the caller's clock; never less than before.
            events: What happened since the last call.

        Returns:
            What shall be done, in order.
        """
        assert now >= self._now, f"time runs backwards: {now} after {self._now}"
        self._now = now
        commands: list[Command] = []
        for event in events:
            self._handlers.apply(now, event, commands)
        if self._is_due(now):
            self._decide(now, commands)
        self._tell_wake(commands)
        return commands

    def view(self) -> View:
        """The jobs and the cluster, as policies see them now."""
        table = self.table
        return View(
            now=self._now,
            jobs=table.live,
            waiting=table.waiting,
            holding=table.holding,
            arrived=tuple(self._handlers.arrived),
            ended=tuple(self._handlers.ended),
            cluster=table.cluster,
            tenants=table.tenants,
            usage=table.usage,
            speeds=self.config.speeds,
            costs=self.config.costs,
            _table=table,
        )

    @property
    def now(self) -> float:
        """The clock of the last tick."""
        return self._now

    def explain(self, job: JobId) -> str:
        """Where a job stands and why, in words."""
        record = self.table[job]
        if record.waiting:
            return self.policy.why_waiting(self.view(), record)
        return record.reason

    # --- when --------------------------------------------------------------------------------

    def _is_due(self, now: float) -> bool:
        clock = self.policy.clock
        if isinstance(clock, EventDriven):
            asked = self._handlers.dirty or (self._wake_s is not None and now >= self._wake_s)
            return asked and (self._decided_s is None or now >= self._decided_s + clock.min_gap_s)
        if self._told_wake_s is None:  # idle up to now: the next round is the first one from here on
            self._next_round_s = math.ceil(now / clock.period_s) * clock.period_s
        return now >= self._next_round_s and bool(self.table.live or self._handlers.ended)

    def _tell_wake(self, commands: list[Command]) -> None:
        if self._told_wake_s is not None and self._told_wake_s <= self._now:
            self._told_wake_s = None  # that one is spent
        wake_s = self._next_wake_s()
        if wake_s is not None and wake_s != self._told_wake_s:
            commands.append(Wake(wake_s))
        self._told_wake_s = wake_s

    def _next_wake_s(self) -> float | None:
        clock = self.policy.clock
        if isinstance(clock, EventDriven):
            wanted_s = self._now if self._handlers.dirty else self._wake_s
            if wanted_s is None or self._decided_s is None:
                return wanted_s
            return max(wanted_s, self._decided_s + clock.min_gap_s)
        return self._next_round_s if self.table.live else None

    # --- what --------------------------------------------------------------------------------

    def _decide(self, now: float, commands: list[Command]) -> None:
        decision = self.policy.decide(self.view())
        self._decided_s = now
        self._handlers.decided()
        clock = self.policy.clock
        if not isinstance(clock, EventDriven):
            self._next_round_s = (math.floor(now / clock.period_s) + 1) * clock.period_s
        self._wake_s = decision.wake_at_s
        for job, reason in decision.refused.items():
            self._handlers.refuse(now, self.table[job], reason, commands)
        self._carry_out(now, decision, commands)
        for job, reason in decision.reasons.items():
            self.table[job].reason = reason

    def _carry_out(self, now: float, decision: Decision, commands: list[Command]) -> None:
        """Suspensions and shrinks first, so that others find their slots."""
        if self.config.instant:
            self._exchange(decision)
        later: list[tuple[Job, Shape]] = []
        for name, shape in decision.shapes.items():
            job = self.table[name]
            self._check(job, shape)
            if job.ended or (shape == job.shape and name not in decision.placements):
                continue
            if job.spec.gpus(shape) < job.gpus:
                self._shrink(now, job, shape, decision, commands)
            else:
                later.append((job, shape))
        for job, shape in later:
            self._grow(now, job, shape, decision, commands)

    def _exchange(self, decision: Decision) -> None:
        """Where changes take no time, running jobs leave their slots for one another, if then all find theirs free."""
        placed = {name: placement for name, placement in decision.placements.items() if decision.shapes.get(name)}
        if len(placed) < sum(map(bool, decision.shapes.values())):
            return  # those that go wherever there is room could take the slots of those that left
        cluster = self.table.cluster
        cluster.checkpoint()
        for name in placed:
            job = self.table[name]
            if job.state is JobState.RUNNING and not self.table.over_limit(job, decision.shapes[name]):
                cluster.assign(name, NOWHERE)
        if cluster.fits(placed):
            cluster.commit()
        else:
            cluster.rollback()

    def _check(self, job: Job, shape: Shape) -> None:
        if not job.spec.admits(shape):
            raise PolicyError(self.policy.name, job.job, f"{shape} is outside of what the job asked for")

    def _shrink(self, now: float, job: Job, shape: Shape, decision: Decision, commands: list[Command]) -> None:
        if job.state is not JobState.RUNNING and not (job.state is JobState.STARTING and not shape):
            return  # it is changing; decided again when that is done
        if not shape:
            self._handlers.suspend(now, job, decision.reasons.get(job.job, "preempted"), commands)
            return
        placement = self._place(job, shape, decision)
        if placement is not None:
            self._handlers.resize(now, job, shape, placement, commands)

    def _grow(self, now: float, job: Job, shape: Shape, decision: Decision, commands: list[Command]) -> None:
        if not job.waiting and job.state is not JobState.RUNNING:
            return
        over = self.table.over_limit(job, shape)
        if over:
            job.reason = over
            return
        placement = self._place(job, shape, decision)
        if placement is None:
            job.reason = f"no room for {shape} yet: {self.table.cluster.free} GPUs are free"
        elif job.waiting:
            self._handlers.start(now, job, shape, placement, commands)
        else:
            self._handlers.resize(now, job, shape, placement, commands)

    def _place(self, job: Job, shape: Shape, decision: Decision) -> Placement | None:
        """Where the policy wants it, or where the placer finds room; None while there is none."""
        placement = decision.placements.get(job.job)
        if placement is None:
            placement = self.placer.place(self.table.cluster, job, shape)
        elif self.table.cluster.why_not(job.job, placement):
            return None  # others still hold those slots
        if placement is not None and placement.total != job.spec.gpus(shape):
            raise PolicyError(self.policy.name, job.job, f"{placement.gpus} is no placement of {shape}")
        return placement

    def validate(self) -> None:
        """Check every invariant; for tests, after every round."""
        self.table.validate()
