"""What each event does to the jobs, before the policy is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raytide.core import events
from raytide.core.admission import why_impossible
from raytide.core.commands import Command, Refuse, Scale, Start, Stop, Suspend
from raytide.core.events import Event
from raytide.core.job import Job
from raytide.core.lifecycle import JobState
from raytide.core.model import JobSpec, Placement, Shape
from raytide.core.policy import Placer
from raytide.core.table import JobTable

_BY_OWNER = "suspended by its owner"
_CAN_BE_TOLD_TO_STOP = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


class Handlers:
    """Applies events to the table of jobs.

    Attributes:
        dirty: Something happened that a policy may want to act on.
        arrived: Jobs that were submitted, or resumed by their owner, since the last decision.
        ended: Jobs that ended, or were suspended by their owner, since the last decision.
    """

    def __init__(self, table: JobTable, placer: Placer, instant: bool, most_gpus: int | None) -> None:
        self._table = table
        self._placer = placer
        self._instant = instant
        self._most_gpus = most_gpus
        self.dirty = False
        self.arrived: list[Job] = []
        self.ended: list[Job] = []
        self._by_type: dict[type, Callable[[float, Any, list[Command]], None]] = {
            events.Submitted: self._submitted,
            events.Restored: self._restored,
            events.Started: self._started,
            events.Resized: self._resized,
            events.ResizeFailed: self._resize_failed,
            events.Suspended: self._suspended,
            events.SuspendFailed: self._suspend_failed,
            events.Finished: self._finished,
            events.Stopped: self._stopped,
            events.Crashed: self._crashed,
            events.CancelRequested: self._cancelled,
            events.SuspendRequested: self._suspend_requested,
            events.ResumeRequested: self._resume_requested,
            events.BoundsChanged: self._bounds_changed,
            events.Measured: self._measured,
            events.Progressed: self._progressed,
            events.Trained: self._trained,
            events.NodeJoined: self._node_joined,
            events.NodeTaken: self._node_taken,
            events.NodeDraining: self._node_draining,
            events.NodeLost: self._node_lost,
            events.TenantsChanged: self._tenants_changed,
            events.Timer: self._timer,
        }

    def apply(self, now: float, event: Event, commands: list[Command]) -> None:
        """Apply one event; commands that need no policy are appended."""
        self._by_type[type(event)](now, event, commands)

    def decided(self) -> None:
        """The policy has seen everything up to now."""
        self.dirty = False
        self.arrived.clear()
        self.ended.clear()

    # --- commands carried out on the table ---------------------------------------------------

    def start(self, now: float, job: Job, shape: Shape, placement: Placement, commands: list[Command]) -> None:
        """A start was decided."""
        commands.append(Start(job.job, shape, placement, resume=job.first_start_s is not None))
        self._table.start(now, job, shape, placement)
        if self._instant:
            self._table.settle(now, job, f"runs with {shape}")

    def resize(self, now: float, job: Job, shape: Shape, placement: Placement, commands: list[Command]) -> None:
        """A resize was decided."""
        commands.append(Scale(job.job, shape, placement))
        self._table.resize(now, job, shape, placement)
        if self._instant:
            self._table.settle(now, job, f"runs with {shape}")

    def suspend(self, now: float, job: Job, reason: str, commands: list[Command]) -> None:
        """A suspension was decided; slots stay held while the job saves."""
        commands.append(Suspend(job.job, reason))
        job.suspensions += 1
        job.become(now, JobState.SUSPENDING, reason)
        if self._instant:
            self._table.release(now, job, JobState.SUSPENDED, reason)

    def refuse(self, now: float, job: Job, reason: str, commands: list[Command]) -> None:
        """The job will not run."""
        self._end(now, job, JobState.REFUSED, reason)
        commands.append(Refuse(job.job, reason))

    def _end(self, now: float, job: Job, state: JobState, reason: str) -> None:
        was_seen = not job.resting
        self._table.release(now, job, state, reason)
        if was_seen:
            self._leave(job)

    # --- jobs --------------------------------------------------------------------------------

    def _submitted(self, now: float, event: events.Submitted, commands: list[Command]) -> None:
        why = self.why_impossible(event.spec)
        job = self._table.submit(event.spec)
        self.arrived.append(job)
        self.dirty = True
        if why:
            self.refuse(now, job, why, commands)

    def why_impossible(self, spec: JobSpec) -> str:
        """Why a job can never run; empty if it can."""
        most = self._table.cluster.total if self._most_gpus is None else self._most_gpus
        return why_impossible(spec, self._table, most)

    def _restored(self, now: float, event: events.Restored, commands: list[Command]) -> None:
        job = self._table.restore(now, event.spec, event.past)
        if not job.resting:
            self.arrived.append(job)
        self.dirty = True

    def _started(self, now: float, event: events.Started, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.state is JobState.STARTING:
            self._settle(now, job, commands)

    def _resized(self, now: float, event: events.Resized, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.state is JobState.RESIZING:
            self._settle(now, job, commands)

    def _settle(self, now: float, job: Job, commands: list[Command]) -> None:
        self._table.settle(now, job, f"runs with {job.shape}")
        self.dirty = True
        self._bound_at_last(now, job, commands)

    def _resize_failed(self, now: float, event: events.ResizeFailed, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.state is JobState.RESIZING:
            self._table.give_up_resize(now, job, f"resize given up: {event.reason}")
            _widen(job)
            self.dirty = True
            self._bound_at_last(now, job, commands)

    def _suspended(self, now: float, event: events.Suspended, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.state is JobState.SUSPENDING:
            self._release(now, job, JobState.SUSPENDED, job.reason, commands)

    def _suspend_failed(self, now: float, event: events.SuspendFailed, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.state is not JobState.SUSPENDING:
            return
        job.held = False
        self._table.resume_training(now, job, f"could not be suspended: {event.reason}")
        _widen(job)
        self.dirty = True
        if self._table.cluster.placement(job.job).total != job.gpus:
            self._go_on(now, job, "lost a node while it was being suspended", commands)
        self._bound_at_last(now, job, commands)

    def _finished(self, now: float, event: events.Finished, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.holding:
            state = JobState.FAILED if event.error else JobState.SUCCEEDED
            self._end(now, job, state, event.error or "done")

    def _stopped(self, now: float, event: events.Stopped, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.state is JobState.STOPPING:
            self._end(now, job, JobState.CANCELLED, job.reason)

    def _crashed(self, now: float, event: events.Crashed, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.state is JobState.STOPPING:
            self._end(now, job, JobState.CANCELLED, job.reason)
        elif job.holding:
            self._release(now, job, JobState.PENDING, f"queued again: {event.reason}", commands)

    def _cancelled(self, now: float, event: events.CancelRequested, commands: list[Command]) -> None:
        job = self._table[event.job]
        reason = "cancelled by its owner"
        if job.waiting or job.resting:
            self._end(now, job, JobState.CANCELLED, reason)
        elif job.state in _CAN_BE_TOLD_TO_STOP:
            job.become(now, JobState.STOPPING, reason)
            commands.append(Stop(job.job, reason))
            if self._instant:
                self._end(now, job, JobState.CANCELLED, reason)

    def _suspend_requested(self, now: float, event: events.SuspendRequested, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.held or job.ended or job.state is JobState.STOPPING:
            return
        if job.waiting:
            self._table.rest(job)
            self._go_to_rest(job)
        job.held = True
        job.reason = _BY_OWNER
        if job.state in _CAN_BE_TOLD_TO_STOP:
            self.suspend(now, job, _BY_OWNER, commands)

    def _resume_requested(self, now: float, event: events.ResumeRequested, commands: list[Command]) -> None:
        job = self._table[event.job]
        if not job.held:
            return
        is_resting, job.held = job.resting, False
        job.reason = "resumed by its owner"
        if is_resting:
            self._table.wake(now, job)
            self._come(job)

    def _leave(self, job: Job) -> None:
        """Policies see it no more."""
        self.dirty = True
        self.ended.append(job)

    def _go_to_rest(self, job: Job) -> None:
        """Policies see it no more for now."""
        if job in self.arrived:
            self.arrived.remove(job)  # they did not notice
            self.dirty = True
        else:
            self._leave(job)

    def _come(self, job: Job) -> None:
        """Policies see it again."""
        self.dirty = True
        if job in self.ended:
            self.ended.remove(job)  # they did not notice
        else:
            self.arrived.append(job)

    def _release(self, now: float, job: Job, state: JobState, reason: str, commands: list[Command]) -> None:
        """It holds nothing any more, and waits or rests."""
        self._table.release(now, job, state, reason)
        self.dirty = True
        if job.held:
            self._go_to_rest(job)
        self._bound_at_last(now, job, commands)

    # --- bounds ------------------------------------------------------------------------------

    def _bounds_changed(self, now: float, event: events.BoundsChanged, commands: list[Command]) -> None:
        job = self._table[event.job]
        if job.ended:
            return
        job.bounds_to_come = event
        if job.waiting or job.resting or job.state is JobState.RUNNING:
            self._bound_at_last(now, job, commands)

    def _bound_at_last(self, now: float, job: Job, commands: list[Command]) -> None:
        """Give it the bounds that wait for it, and the size that follows from them.

        A running job is not made to wait where there is no room to grow: its least is then what it has.
        """
        wanted, job.bounds_to_come = job.bounds_to_come, None
        if wanted is None:
            return
        self.dirty = True
        least, most = wanted.least, wanted.most
        spec = job.spec.with_bounds(least, most, preemptible=wanted.preemptible)
        why = self.why_impossible(spec)
        if why:
            job.reason = f"keeps its bounds: {why}"
            return
        count = job.shape[spec.roles[0].name]
        placement = None
        if count and not least <= count <= most:
            shape = _with_first(job.shape, spec, min(max(count, least), most))
            if not self._table.over_limit(job, shape):
                placement = self._placer.place(self._table.cluster, job, shape)
            if placement is None:
                spec = _bounded(job, least, most, wanted.preemptible)
        job.bound(spec)
        if placement is not None:
            self.resize(now, job, shape, placement, commands)

    def _measured(self, now: float, event: events.Measured, commands: list[Command]) -> None:
        job = self._table[event.job]
        if not job.ended:
            job.measured[event.shape] = event.samples_per_s

    def _progressed(self, now: float, event: events.Progressed, commands: list[Command]) -> None:
        job = self._table[event.job]
        if not job.ended:
            job.progressed(now, event.done)

    def _trained(self, now: float, event: events.Trained, commands: list[Command]) -> None:
        job = self._table[event.job]
        if not job.ended:
            job.trained(now, event.training)

    # --- nodes and tenants -------------------------------------------------------------------

    def _node_joined(self, now: float, event: events.NodeJoined, commands: list[Command]) -> None:
        self._table.cluster.add_node(event.node)
        self.dirty = True

    def _node_taken(self, now: float, event: events.NodeTaken, commands: list[Command]) -> None:
        self._table.cluster.take(event.node, event.gpus)
        self.dirty = True

    def _node_draining(self, now: float, event: events.NodeDraining, commands: list[Command]) -> None:
        """Move what can be moved at once; the rest stays until there is room or the node goes."""
        cluster = self._table.cluster
        cluster.close_node(event.node)
        self.dirty = True
        for job in [j for j in self._table.holding.values() if event.node in cluster.placement(j.job).nodes]:
            if job.state is not JobState.RUNNING:
                continue
            placement = self._placer.place(cluster, job, job.shape)
            if placement is not None and event.node not in placement.nodes:
                self.resize(now, job, job.shape, placement, commands)

    def _node_lost(self, now: float, event: events.NodeLost, commands: list[Command]) -> None:
        """Jobs go on with what is left of them, if that is enough, and queue again otherwise."""
        self.dirty = True
        for name in self._table.cluster.remove_node(event.node):
            job = self._table[name]
            if job.state is JobState.RUNNING:
                self._go_on(now, job, f"lost node {event.node}", commands)
            elif job.state in (JobState.STOPPING, JobState.SUSPENDING) and self._table.cluster.placement(name):
                self._table.forget_change(job)  # what is left of it answers when it is gone
            elif job.state is JobState.STOPPING:
                self._end(now, job, JobState.CANCELLED, job.reason)
            else:
                self._queue_again(now, job, f"lost node {event.node}", commands)

    def _go_on(self, now: float, job: Job, why: str, commands: list[Command]) -> None:
        """A job that trains goes on with the slots it has left, or queues again."""
        left = self._left_of(job)
        if left:
            self._table.lose(now, job, left)
            commands.append(Scale(job.job, left, self._table.cluster.placement(job.job)))
        else:
            self._queue_again(now, job, why, commands)

    def _queue_again(self, now: float, job: Job, why: str, commands: list[Command]) -> None:
        reason = f"queued again: {why}"
        commands.append(Suspend(job.job, reason))
        self._release(now, job, JobState.PENDING, reason, commands)

    def _left_of(self, job: Job) -> Shape:
        """The shape of the slots that a job kept; empty if it cannot run with them."""
        kept = self._table.cluster.placement(job.job)
        first, *others = job.spec.roles
        if others or not first.gpus:
            return Shape()
        count = sum(gpus // first.gpus for _, gpus in kept.gpus)
        shape = Shape(((first.name, count),)) if count else Shape()
        whole = job.spec.gpus(shape) == kept.total
        return shape if whole and job.spec.admits(shape) else Shape()

    def _tenants_changed(self, now: float, event: events.TenantsChanged, commands: list[Command]) -> None:
        self._table.change_tenants(event.tenants)
        self.dirty = True

    def _timer(self, now: float, event: events.Timer, commands: list[Command]) -> None:
        """Time itself is enough."""


def _bounded(job: Job, least: int, most: int, preemptible: bool) -> JobSpec:
    """The job with these bounds, as far as they admit what it has."""
    count = job.shape[job.spec.roles[0].name]
    if count:
        least, most = min(least, count), max(most, count)
    return job.spec.with_bounds(least, most, preemptible=preemptible)


def _widen(job: Job) -> None:
    """What it was to become did not happen: its bounds have to admit what it has."""
    first = job.spec.roles[0]
    job.bound(_bounded(job, first.least, first.most, job.spec.preemptible))


def _with_first(shape: Shape, spec: JobSpec, count: int) -> Shape:
    """The same shape with another number of processes of the first role."""
    first = spec.roles[0].name
    return Shape(tuple((name, count if name == first else known) for name, known in shape.counts))
