"""The actor that runs one job: what its owner, its users and its replicas can call.

It holds no GPU; while it is away, training goes on. Decisions are the state machine's
(:mod:`raytide.elastic`), and carried out by the :class:`~raytide.actors.shell.Shell`.
"""

from __future__ import annotations

import os
import time
from functools import partial

import ray

from raytide.actors.grants import Grant, change_to, union
from raytide.actors.profiling import measure_profile
from raytide.actors.shell import Shell, in_background
from raytide.actors.slots import find_node
from raytide.actors.spec import JobSpec
from raytide.actors.status import JobStatus, StatusReporter
from raytide.actors.untyped import actor_class, in_group, node_address
from raytide.actors.views import JobView, MemberView, Profile
from raytide.collective import StoreServer
from raytide.elastic.effects import Answer
from raytide.elastic.master import Start
from raytide.elastic.messages import Checkpoint, FromReplica, Heartbeat, Resize, Resume, Stop, Suspend
from raytide.elastic.model import ReplicaId, Slot
from raytide.elastic.state import END_PHASES, Phase
from raytide.elastic.straggler import StragglerDetector
from raytide.errors import LOOP_RAISED, RequestRefused
from raytide.train.services import Report

IDLE_AFTER_END_S = 600.0
"""A job's results can be asked for this long after its end."""


class JobMaster:
    """Runs one job.

    Args:
        spec: The job. A restarted actor gets the same one and finds its journal.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._pace: Heartbeat | None = None
        self._straggling = StragglerDetector()
        self._owner_seen_s = time.monotonic()
        self._handle = ray.get_runtime_context().current_actor
        store = StoreServer(node_address())
        self._reporter: StatusReporter | None = None
        self._shell = Shell(spec, store, self._handle, self._on_tick)
        self._hosts = self._shell.hosts
        self._shell.start()
        self._reporter = StatusReporter(spec.name, self._status) if spec.managed else None

    # --- calls of the owner and of users -----------------------------------------------------

    @in_group("requests")
    def start(self) -> int:
        """Start the job; returns how many replicas it starts with.

        Raises:
            RequestRefused: There are not enough free slots.
        """
        if self._shell.state.replicas or self._shell.state.phase is not Phase.STARTING:
            return len(self._shell.state.replicas)
        slots = self._slots_for_start(self._spec.scaling.first)
        self._shell.put(Start(slots))
        return len(slots)

    # --- scale hooks: calls of the scheduler -------------------------------------------------

    @in_group("requests")
    def start_on(self, request: str, grant: Grant) -> None:
        """Start, or go on after a suspension, on exactly these slots; returns when the replicas are starting.

        Raises:
            RequestRefused: They are not free.
        """
        phase, count = self._shell.state.phase, sum(grant.values())
        if self._shell.knows(request):
            return
        self._hosts.limit(grant)
        if phase is not Phase.SUSPENDED and self._shell.state.replicas:
            return  # said again by a scheduler that restarted; or the whole cluster did, and it recovers on these slots
        slots = self._hosts.find(count, least=count)
        if not slots:
            raise RequestRefused(f"job {self._spec.name}: its {count} slots are not free: {self._free_text()}")
        self._shell.put(Resume(request, slots) if phase is Phase.SUSPENDED else Start(slots))

    @in_group("requests")
    def become(self, request: str, grant: Grant) -> None:
        """Hold exactly these slots; returns when the replicas on them train.

        Raises:
            RequestRefused: It cannot; the job goes on with what it had.
        """
        if self._shell.knows(request):
            self._shell.ask(Resize(request))
            self._hosts.limit(grant)
            return
        before = self._hosts.limits
        change = change_to(grant, self._members_by_node())
        self._hosts.limit(union(before, grant))
        try:
            slots = self._find_on(change.add)
            if change:
                self._shell.ask(Resize(request, add=slots, remove=change.remove))
        except RequestRefused:
            self._hosts.limit(before)
            raise
        self._hosts.limit(grant)

    def _members_by_node(self) -> list[tuple[ReplicaId, str]]:
        """Replicas that are wanted, with their nodes, members first and in rank order."""
        state = self._shell.state
        members = state.active.members if state.active else ()
        wanted = sorted(state.target, key=lambda r: members.index(r) if r in members else len(members))
        return [(r, state.replicas[r].slot.node) for r in wanted if r in state.replicas]

    def _find_on(self, nodes: Grant) -> tuple[Slot, ...]:
        found: list[Slot] = []
        try:
            for node, count in nodes.items():
                found += self._find_all(count, node)
        except RequestRefused:
            self._hosts.give_back(found)
            raise
        return tuple(found)

    def _find_all(self, count: int, node: str) -> tuple[Slot, ...]:
        slots = self._hosts.find(count, node=node, least=count)
        if not slots:
            raise RequestRefused(f"{count} slots of node {node[:8]} are not free: {self._free_text()}")
        return slots

    def _free_text(self) -> str:
        return ", ".join(f"{v.name}: {v.free} of {v.total} free" for v in self._hosts.nodes())

    @in_group("views")
    def say_again(self) -> None:
        """The scheduler wants to know how the job stands."""
        if self._reporter is not None:
            self._reporter.say_again()

    def _status(self) -> JobStatus:
        s, pace = self._shell.state, self._pace
        fault = "user" if s.error.startswith(LOOP_RAISED) else "node"
        return JobStatus(
            job=self._spec.name,
            phase=str(s.phase),
            released=self._shell.ended_s > 0,
            world_size=s.active.world_size if s.active else 0,
            generation=s.active.number if s.active else 0,
            step=s.position.step,
            epoch=s.position.epoch,
            done=float(s.position.step * pace.batch) if pace else 0.0,
            samples_per_s=pace.samples_per_s if pace else 0.0,
            error=s.error,
            fault=fault if s.error else "",
            checkpoint=s.last_checkpoint,
            metrics=self._shell.record.metrics(),
        )

    # --- slots -------------------------------------------------------------------------------

    def _slots_for_start(self, wanted: int) -> tuple[Slot, ...]:
        least = self._spec.scaling.least
        slots = self._hosts.find(wanted, least=least)
        if not slots:
            views = self._hosts.nodes()
            nodes = ", ".join(f"{v.name}: {v.free} of {v.total} free" for v in views)
            raise RequestRefused(
                f"job {self._spec.name} needs {least} slots of {self._spec.scaling.slot_resources}, and "
                f"{sum(v.free for v in views)} are free ({nodes}). "
                "Add nodes, wait for others to finish, or lower num_workers"
            )
        return slots

    @in_group("requests")
    def scale_out(self, request: str, count: int, nodes: tuple[str, ...] = ()) -> Answer:
        """Add ``count`` replicas, or one on each of ``nodes``; returns when they train."""
        if self._shell.knows(request):
            return self._shell.ask(Resize(request))
        slots = self._find_exactly(count, nodes)
        return self._shell.ask(Resize(request, add=slots))

    @in_group("requests")
    def scale_in(self, request: str, count: int, ranks: tuple[int, ...] = ()) -> Answer:
        """Take out ``ranks``, or the ``count`` last ones; returns when the others train without them."""
        if self._shell.knows(request):
            return self._shell.ask(Resize(request))
        if count < 1 and not ranks:
            raise RequestRefused(f"{count} replicas: give at least 1")
        active = self._shell.state.active
        members = active.members if active else ()
        wanted = ranks or tuple(range(len(members) - count, len(members)))
        return self._shell.ask(Resize(request, remove=tuple(self._member(rank, members) for rank in wanted)))

    @in_group("requests")
    def migrate(self, request: str, rank: int, node: str = "") -> Answer:
        """Move the replica of ``rank`` to ``node``, or to whatever slot is free."""
        if self._shell.knows(request):
            return self._shell.ask(Resize(request))
        active = self._shell.state.active
        replica = self._member(rank, active.members if active else ())
        slots = self._find_exactly(1, (node,) if node else ())
        return self._shell.ask(Resize(request, add=slots, remove=(replica,)))

    @staticmethod
    def _member(rank: int, members: tuple[ReplicaId, ...]) -> ReplicaId:
        if not 0 <= rank < len(members):
            raise RequestRefused(f"there is no rank {rank}: the job has {len(members)} replicas")
        return members[rank]

    def _find_exactly(self, count: int, nodes: tuple[str, ...]) -> tuple[Slot, ...]:
        if count < 1 and not nodes:
            raise RequestRefused(f"{count} replicas: give at least 1")
        views = self._hosts.nodes()
        wanted = [find_node(views, name).node for name in nodes]
        found: list[Slot] = []
        try:
            for node in wanted:
                found += self._hosts.find(1, node=node, least=1)
            if not wanted:
                found += self._hosts.find(count, least=count)
        except RequestRefused:
            self._hosts.give_back(found)
            raise
        missing = (len(wanted) or count) - len(found)
        if missing:
            self._hosts.give_back(found)
            free = ", ".join(f"{v.name}: {v.free}" for v in self._hosts.nodes())
            raise RequestRefused(f"{missing} of the slots asked for are not free (free now: {free})")
        return tuple(found)

    @in_group("requests")
    def checkpoint(self, request: str) -> Answer:
        """Write a checkpoint beside training; returns when it is complete."""
        return self._shell.ask(Checkpoint(request))

    @in_group("requests")
    def suspend(self, request: str) -> Answer:
        """Save and give back every slot."""
        return self._shell.ask(Suspend(request))

    @in_group("requests")
    def resume(self, request: str, count: int = 0) -> Answer:
        """Go on from the checkpoint, with ``count`` replicas (as many as the job starts with, if 0)."""
        if self._shell.knows(request):
            return self._shell.ask(Resume(request, ()))
        slots = self._slots_for_start(count or self._spec.scaling.first)
        return self._shell.ask(Resume(request, slots))

    @in_group("requests")
    def stop(self, request: str) -> Answer:
        """End the job at its next boundary, with a checkpoint."""
        return self._shell.ask(Stop(request))

    @in_group("requests")
    def dismiss(self) -> None:
        """End every process of the job at once, and take no slot any more."""
        self._hosts.close(0.0)

    @in_group("requests")
    def profile(self, request: str, least: int, most: int, window_s: float) -> list[Profile]:
        """Throughput at each size from ``most`` down to ``least``, from this one run."""
        return measure_profile(self, request, least, most, window_s)

    # --- calls of replicas -------------------------------------------------------------------

    @in_group("messages")
    def deliver(self, replica: ReplicaId, message: FromReplica) -> None:
        """Take a replica's message; in order for each replica."""
        if isinstance(message, Heartbeat):
            self._measure(replica, message)
        self._shell.say(replica, message)

    @in_group("messages")
    def report(self, replica: ReplicaId, report: Report) -> None:
        """Take a replica's metrics."""
        self._shell.record.take(report)

    def _measure(self, replica: ReplicaId, beat: Heartbeat) -> None:
        now = time.monotonic()
        active = self._shell.state.active
        if active is None or replica not in active.members:
            return
        if replica == active.members[0]:
            self._pace = beat
        for slow, ratio in self._straggling.feed(now, replica, beat, active.members):
            rank = active.members.index(slow)
            data = {"replica": slow, "rank": rank, "ratio": ratio}
            text = f"rank {rank} ({slow}) is {ratio:.1f} times slower than the median"
            self._shell.record.note("straggler", text, data)
            if self._spec.scaling.replace_stragglers:
                in_background(partial(self._replace, slow))

    def _replace(self, slow: ReplicaId) -> None:
        active = self._shell.state.active
        if active is None or slow not in active.members:
            return
        try:
            self.migrate(f"straggler-{time.time_ns()}", active.members.index(slow))
        except RequestRefused as error:
            self._shell.record.note("straggler", f"{slow} could not be replaced: {error}", {})

    # --- views -------------------------------------------------------------------------------

    @in_group("views")
    def owner_lives(self) -> None:
        """The job's owner still wants it."""
        self._owner_seen_s = time.monotonic()

    @in_group("views")
    def view(self, since: int = 0) -> JobView:
        """The job as it stands, with the events from number ``since`` on."""
        s, pace = self._shell.state, self._pace
        ranks = {r: i for i, r in enumerate(s.active.members if s.active else ())}
        members = tuple(
            MemberView(
                name,
                ranks.get(name, -1),
                record.slot.node,
                record.slot.index,
                record.place,
                self._straggling.busy_s(name),
                self._hosts.pid(name),
            )
            for name, record in sorted(s.replicas.items(), key=lambda item: ranks.get(item[0], 1 << 30))
        )
        return JobView(
            name=self._spec.name,
            phase=str(s.phase),
            step=s.position.step,
            epoch=s.position.epoch,
            world_size=len(ranks),
            generation=s.active.number if s.active else 0,
            least=self._spec.scaling.least,
            most=self._spec.scaling.most,
            step_s=pace.step_s if pace else 0.0,
            samples_per_s=pace.samples_per_s if pace else 0.0,
            metrics=self._shell.record.metrics(),
            members=members,
            events=self._shell.record.since(since),
            checkpoint=s.last_checkpoint,
            error=s.error,
            released=self._shell.ended_s > 0,
        )

    @in_group("views")
    def pid(self) -> int:
        """Process id of the master."""
        return os.getpid()

    @in_group("views")
    def metrics(self) -> list[dict[str, float]]:
        """All reported metrics, in order."""
        return self._shell.record.rows()

    # --- time --------------------------------------------------------------------------------

    def _on_tick(self, now: float) -> None:
        spec, shell = self._spec, self._shell
        phase = shell.state.phase
        if self._reporter is not None:
            self._reporter.look()
        if phase in END_PHASES:
            if shell.ended_s and now - max(shell.ended_s, self._owner_seen_s) > IDLE_AFTER_END_S:
                ray.kill(self._handle, no_restart=True)
            return
        if spec.owner_lease_s and now - self._owner_seen_s > spec.owner_lease_s:
            text = f"the job's owner is gone for {spec.owner_lease_s:.0f} s: stopping"
            shell.record.note("orphaned", text, {})
            self._owner_seen_s = now
            shell.put(Stop(f"owner-gone-{time.time_ns()}"))
        if spec.scaling.standbys and phase in (Phase.RUNNING, Phase.SUSPENDED):
            room = spec.scaling.most - len(shell.state.replicas) if phase is Phase.RUNNING else 0
            wanted = min(spec.scaling.standbys, max(0, room))
            in_background(lambda: self._hosts.keep_warm(wanted))


MasterActor = actor_class(
    JobMaster,
    concurrency_groups={"messages": 1, "requests": 64, "views": 4},
    num_cpus=0,
    max_restarts=-1,
    max_task_retries=-1,
)
