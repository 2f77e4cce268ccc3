"""The actor that runs one job: the shell around :class:`raytide.elastic.master.Master`.

It turns calls, messages and deaths into events, journals the state, and carries the effects out. All
decisions are the state machine's. It holds no GPU; while it is away, training goes on.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import ray

from raytide.actors.hosts import Hosts
from raytide.actors.profiling import measure_profile
from raytide.actors.record import JournalFile, Record
from raytide.actors.replica import Assignment
from raytide.actors.slots import find_node
from raytide.actors.spec import JobSpec
from raytide.actors.views import JobView, MemberView, Profile
from raytide.collective import StoreServer
from raytide.elastic.effects import Answer, Effect, EndJob, NeedSlots, Note, StartReplica, StopReplica, Tell
from raytide.elastic.master import Event, From, Master, Restarted, SlotsFound, Start, Tick
from raytide.elastic.messages import (
    Checkpoint,
    FromReplica,
    Heartbeat,
    Request,
    Resize,
    Resume,
    Stop,
    Suspend,
)
from raytide.elastic.model import ReplicaId, Slot
from raytide.elastic.state import END_PHASES, JobState, Phase
from raytide.elastic.straggler import StragglerDetector
from raytide.errors import RequestRefused
from raytide.train.membership import Wiring
from raytide.train.services import Report, SessionSpec

logger = logging.getLogger(__name__)

TICK_S = 0.25
RELEASE_GRACE_S = 10.0
IDLE_AFTER_END_S = 600.0


class JobMaster:
    """Runs one job.

    Args:
        spec: The job. A restarted actor gets the same one and finds its journal.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._store = StoreServer(ray.util.get_node_ip_address())
        self._journal = JournalFile(spec.storage)
        self._record = Record()
        self._pace: Heartbeat | None = None
        self._straggling = StragglerDetector()
        self._inbox: queue.Queue[Event] = queue.Queue()
        self._answers: dict[str, Future[Answer]] = {}
        self._answers_lock = threading.Lock()
        self._owner_seen_s = time.monotonic()
        self._ended_s = 0.0
        self._hosts = Hosts(spec.name, spec.scaling.slot_resources, self._say)
        self._handle = ray.get_runtime_context().current_actor
        self._master = self._take_over()
        threading.Thread(target=self._serve, name="raytide-master", daemon=True).start()

    def _take_over(self) -> Master:
        address = f"{self._store.address.host}:{self._store.address.port}"
        known = self._journal.load()
        if known is None:
            state = JobState(self._spec.name, self._spec.bounds(), last_checkpoint=self._spec.checkpoint)
            return Master(state, address)
        state, names, self._record = known
        self._hosts.readopt({r: record.slot for r, record in state.replicas.items()}, names)
        self._inbox.put(Restarted())
        return Master(state, address)

    # --- calls of the owner and of users -----------------------------------------------------

    @ray.method(concurrency_group="requests")
    def start(self) -> int:
        """Start the job; returns how many replicas it starts with.

        Raises:
            RequestRefused: There are not enough free slots.
        """
        if self._master.state.replicas or self._master.state.phase is not Phase.STARTING:
            return len(self._master.state.replicas)
        slots = self._slots_for_start(self._spec.scaling.first)
        self._inbox.put(Start(slots))
        return len(slots)

    def _slots_for_start(self, wanted: int) -> tuple[Slot, ...]:
        slots = self._hosts.find(wanted)
        if len(slots) < self._spec.scaling.least:
            self._hosts.give_back(slots)
            nodes = ", ".join(f"{v.name}: {v.free} of {v.total} free" for v in self._hosts.nodes())
            raise RequestRefused(
                f"job {self._spec.name} needs {self._spec.scaling.least} slots of "
                f"{self._spec.scaling.slot_resources}, and {len(slots)} are free ({nodes}). "
                "Add nodes, wait for others to finish, or lower num_workers"
            )
        return slots

    @ray.method(concurrency_group="requests")
    def scale_out(self, request: str, count: int, nodes: tuple[str, ...] = ()) -> Answer:
        """Add ``count`` replicas, or one on each of ``nodes``; returns when they train."""
        if request in self._master.state.answered or request in self._master.state.requests:
            return self._ask(Resize(request))
        slots = self._find_exactly(count, nodes)
        return self._resize(Resize(request, add=slots))

    @ray.method(concurrency_group="requests")
    def scale_in(self, request: str, count: int, ranks: tuple[int, ...] = ()) -> Answer:
        """Take out ``ranks``, or the ``count`` last ones; returns when the others train without them."""
        active = self._master.state.active
        members = active.members if active else ()
        wanted = ranks or tuple(range(len(members) - count, len(members)))
        return self._ask(Resize(request, remove=tuple(self._member(rank, members) for rank in wanted)))

    @ray.method(concurrency_group="requests")
    def migrate(self, request: str, rank: int, node: str = "") -> Answer:
        """Move the replica of ``rank`` to ``node``, or to whatever slot is free."""
        if request in self._master.state.answered or request in self._master.state.requests:
            return self._ask(Resize(request))
        active = self._master.state.active
        replica = self._member(rank, active.members if active else ())
        slots = self._find_exactly(1, (node,) if node else ())
        return self._resize(Resize(request, add=slots, remove=(replica,)))

    @staticmethod
    def _member(rank: int, members: tuple[ReplicaId, ...]) -> ReplicaId:
        if not 0 <= rank < len(members):
            raise RequestRefused(f"there is no rank {rank}: the job has {len(members)} replicas")
        return members[rank]

    def _find_exactly(self, count: int, nodes: tuple[str, ...]) -> tuple[Slot, ...]:
        if count < 1 and not nodes:
            raise RequestRefused(f"{count} replicas: give at least 1")
        found: list[Slot] = []
        try:
            if nodes:
                views = self._hosts.nodes()
                for name in nodes:
                    found += self._hosts.find(1, node=find_node(views, name).node)
            else:
                found += self._hosts.find(count)
            missing = (len(nodes) or count) - len(found)
            if missing:
                free = ", ".join(f"{v.name}: {v.free}" for v in self._hosts.nodes())
                raise RequestRefused(f"{missing} of the slots asked for are not free (free now: {free})")
        except RequestRefused:
            self._hosts.give_back(found)
            raise
        return tuple(found)

    def _resize(self, request: Resize) -> Answer:
        try:
            return self._ask(request)
        finally:
            self._hosts.give_back(request.add)  # those a refusal left unused

    @ray.method(concurrency_group="requests")
    def checkpoint(self, request: str) -> Answer:
        """Write a checkpoint beside training; returns when it is complete."""
        return self._ask(Checkpoint(request))

    @ray.method(concurrency_group="requests")
    def suspend(self, request: str) -> Answer:
        """Save and give back every slot."""
        return self._ask(Suspend(request))

    @ray.method(concurrency_group="requests")
    def resume(self, request: str, count: int = 0) -> Answer:
        """Go on from the checkpoint, with ``count`` replicas (as many as the job starts with, if 0)."""
        if request in self._master.state.answered or request in self._master.state.requests:
            return self._ask(Resume(request, ()))
        slots = self._slots_for_start(count or self._spec.scaling.first)
        try:
            return self._ask(Resume(request, slots))
        finally:
            self._hosts.give_back(slots)

    @ray.method(concurrency_group="requests")
    def stop(self, request: str) -> Answer:
        """End the job at its next boundary, with a checkpoint."""
        return self._ask(Stop(request))

    @ray.method(concurrency_group="requests")
    def profile(self, request: str, least: int, most: int, window_s: float) -> list[Profile]:
        """Throughput at each size from ``most`` down to ``least``, from this one run."""
        return measure_profile(self, request, least, most, window_s)

    def _ask(self, request: Request) -> Answer:
        """Put a request to the state machine and wait for its answer; sent again, it is answered once."""
        with self._answers_lock:
            future = self._answers.setdefault(request.request, Future())
        self._inbox.put(request)
        answer = future.result()
        if answer.error:
            raise RequestRefused(answer.error)
        return answer

    # --- calls of replicas -------------------------------------------------------------------

    @ray.method(concurrency_group="messages")
    def deliver(self, replica: ReplicaId, message: FromReplica) -> None:
        """Take a replica's message; in order for each replica."""
        if isinstance(message, Heartbeat):
            self._measure(replica, message)
        self._say(replica, message)

    def _say(self, replica: ReplicaId, message: FromReplica) -> None:
        self._inbox.put(From(replica, message))

    @ray.method(concurrency_group="messages")
    def report(self, replica: ReplicaId, report: Report) -> None:
        """Take a replica's metrics."""
        self._record.take(report)

    def _measure(self, replica: ReplicaId, beat: Heartbeat) -> None:
        now = time.monotonic()
        active = self._master.state.active
        if active is None or replica not in active.members:
            return
        if replica == active.members[0]:
            self._pace = beat
        for slow, ratio in self._straggling.feed(now, replica, beat, active.members):
            rank = active.members.index(slow)
            data = {"replica": slow, "rank": rank, "ratio": ratio}
            text = f"rank {rank} ({slow}) is {ratio:.1f} times slower than the median"
            self._record.note("straggler", text, data)
            if self._spec.scaling.replace_stragglers:
                threading.Thread(target=self._replace, args=(rank,), daemon=True).start()

    def _replace(self, rank: int) -> None:
        try:
            self.migrate(f"straggler-{time.time_ns()}", rank)
        except RequestRefused as error:
            self._record.note("straggler", f"rank {rank} could not be replaced: {error}", {})

    # --- views -------------------------------------------------------------------------------

    @ray.method(concurrency_group="views")
    def view(self, since: int = 0, *, owner: bool = False) -> JobView:
        """The job as it stands, with the events from number ``since`` on."""
        if owner:
            self._owner_seen_s = time.monotonic()
        s, pace = self._master.state, self._pace
        ranks = {r: i for i, r in enumerate(s.active.members if s.active else ())}
        members = tuple(
            MemberView(
                name,
                ranks.get(name, -1),
                record.slot.node,
                record.slot.index,
                record.place,
                self._straggling.busy_s(name),
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
            metrics=self._record.metrics(),
            members=members,
            events=tuple(self._record.events[since:]),
            checkpoint=s.last_checkpoint,
            error=s.error,
        )

    @ray.method(concurrency_group="views")
    def metrics(self) -> list[dict[str, float]]:
        """All reported metrics, in order."""
        return self._record.rows()

    # --- the loop ----------------------------------------------------------------------------

    def _serve(self) -> None:
        ticked_s = 0.0
        while True:
            event = self._next_event()
            now = time.monotonic()
            self._handle_event(now, event)
            if now - ticked_s >= TICK_S:
                ticked_s = now
                self._handle_event(now, Tick())
                self._tick(now)

    def _next_event(self) -> Event:
        try:
            return self._inbox.get(timeout=TICK_S)
        except queue.Empty:
            return Tick()

    def _handle_event(self, now: float, event: Event) -> None:
        before = _durable(self._master.state)
        effects = self._master.handle(now, event)
        for effect in effects:
            if isinstance(effect, Note):
                self._record.note(effect.kind, effect.text, dict(effect.data))
        if effects or _durable(self._master.state) != before:
            self._journal.save(self._master.state, self._hosts.names(), self._record)
        for effect in effects:
            self._carry_out(effect)
        if isinstance(event, SlotsFound):
            self._hosts.give_back(event.slots)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Tell(replica, message):
                self._hosts.tell(replica, message)
            case StartReplica():
                self._start_replica(effect)
            case StopReplica(replica, kill=kill):
                self._hosts.stop(replica, kill=kill)
            case NeedSlots(count):
                self._in_background(lambda: self._offer(count))
            case Answer(request):
                self._answer(effect, request)
            case EndJob():
                self._in_background(self._end)
            case Note():
                logger.info("%s: %s", effect.kind, effect.text)

    @staticmethod
    def _in_background(work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def _start_replica(self, start: StartReplica) -> None:
        spec, run = self._spec, self._spec.run
        session = SessionSpec(
            job=spec.name,
            replica=start.replica,
            initial=start.initial,
            position=start.position,
            checkpoint=start.checkpoint,
            max_replicas=spec.scaling.most,
            storage=f"{spec.storage}/checkpoints",
            keep_checkpoints=run.checkpoint_config.num_to_keep,
            checkpoint_every_s=run.checkpoint_config.every_s,
            virtual_shards=spec.scaling.virtual_shards,
            trace_path=run.trace_path or "",
        )
        limits = self._master.state.bounds.limits
        assignment = Assignment(
            session,
            Wiring(spec.name, spec.scaling.group_backend, connect_s=limits.connect_s),
            spec.loop,
            spec.config,
            spec.scaling.use_gpu,
            limits.heartbeat_s,
            0.0 if start.initial else spec.start_delay_s,
        )
        self._in_background(lambda: self._hosts.start(start.replica, start.slot, assignment, self._handle))

    def _offer(self, count: int) -> None:
        try:
            slots = self._hosts.find(count)
        except RequestRefused as error:
            logger.info("no slots for replacements: %s", error)
            return
        if slots:
            self._inbox.put(SlotsFound(slots))

    def _answer(self, answer: Answer, request: str) -> None:
        with self._answers_lock:
            future = self._answers.setdefault(request, Future())
        if not future.done():
            future.set_result(answer)

    def _end(self) -> None:
        self._hosts.close(RELEASE_GRACE_S)
        self._journal.remove()
        self._ended_s = time.monotonic()

    def _tick(self, now: float) -> None:
        spec, phase = self._spec, self._master.state.phase
        if phase in END_PHASES:
            if self._ended_s and now - max(self._ended_s, self._owner_seen_s) > IDLE_AFTER_END_S:
                ray.kill(self._handle, no_restart=True)
            return
        if spec.owner_lease_s and now - self._owner_seen_s > spec.owner_lease_s:
            self._record.note("orphaned", f"the job's owner is gone for {spec.owner_lease_s:.0f} s: stopping", {})
            self._owner_seen_s = now
            self._inbox.put(Stop("owner-gone"))
        if spec.scaling.standbys and phase is Phase.RUNNING:
            self._in_background(lambda: self._hosts.keep_warm(self._wanted_standbys()))

    def _wanted_standbys(self) -> int:
        room = self._spec.scaling.most - len(self._master.state.replicas)
        return min(self._spec.scaling.standbys, max(0, room))


def _durable(state: JobState) -> tuple[object, ...]:
    """What a restarted master must find; heartbeats change nothing of it."""
    return (
        state.phase,
        state.numbers,
        state.target,
        tuple((r, record.ready) for r, record in state.replicas.items()),
        tuple(state.requests),
        state.last_checkpoint,
        replace(state.active) if state.active else None,
        state.pending,
        state.failures,
    )


MasterActor = ray.remote(
    concurrency_groups={"messages": 1, "requests": 64, "views": 4},
    num_cpus=0,
    max_restarts=-1,
    max_task_retries=-1,
)(JobMaster)
