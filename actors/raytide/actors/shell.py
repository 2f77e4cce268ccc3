"""The shell around one job's state machine: events in, journal, effects out.

Everything that decides is in :class:`raytide.elastic.master.Master`; this file has the thread that feeds it, and
carries out what it wants done.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from raytide.actors.hosts import Found, Hosts
from raytide.actors.metrics import export_pause
from raytide.actors.names import claim_standby
from raytide.actors.record import JournalFile, Record
from raytide.actors.replica import Assignment
from raytide.actors.spec import JobSpec
from raytide.actors.untyped import Handle
from raytide.collective import StoreServer
from raytide.elastic.effects import Answer, Effect, EndJob, NeedSlots, Note, StartReplica, StopReplica, Tell
from raytide.elastic.master import Event, From, Master, Restarted, SlotsFound, Start, Tick
from raytide.elastic.messages import FromReplica, Request, Resize, Resume
from raytide.elastic.model import ReplicaId, Slot
from raytide.elastic.state import JobState
from raytide.errors import RequestRefused
from raytide.train.membership import Wiring
from raytide.train.services import SessionSpec

logger = logging.getLogger(__name__)

TICK_S = 0.25
RELEASE_GRACE_S = 10.0


class Shell:
    """Runs the state machine of one job.

    Args:
        spec: The job.
        store: Rendezvous store of its groups.
        handle: The master's actor, for replicas to send to.
        on_tick: Called four times a second, and after every event that had effects.
    """

    def __init__(self, spec: JobSpec, store: StoreServer, handle: Handle, on_tick: Callable[[float], None]) -> None:
        self.record = Record()
        limits: dict[str, int] | None = {} if spec.managed else None
        is_plain = spec.managed and not spec.runtime_env and not spec.scaling.use_gpu
        claim = claim_standby if is_plain else None
        self.hosts = Hosts(spec.name, spec.scaling.slot_resources, self.say, limits, spec.runtime_env, claim)
        self.ended_s = 0.0
        self._unsaved = False
        self._spec = spec
        self._store = store
        self._handle = handle
        self._on_tick = on_tick
        self._inbox: queue.Queue[Event] = queue.Queue()
        self._answers: dict[str, Future[Answer]] = {}
        self._answers_lock = threading.Lock()
        self._journal = JournalFile(spec.storage, spec.run_id)
        self._master = self._take_over()
        self._generation = self.state.numbers

    def start(self) -> None:
        """Begin to serve events."""
        threading.Thread(target=self._serve, name="raytide-master", daemon=True).start()

    def _take_over(self) -> Master:
        address = f"{self._store.address.host}:{self._store.address.port}"
        known = self._journal.load()
        if known is None:
            self.hosts.sweep()  # of an earlier job of this name whose end nobody saw
            state = JobState(self._spec.name, self._spec.bounds(), last_checkpoint=self._spec.checkpoint)
            return Master(state, address)
        state, names, self.record = known
        if self._spec.managed:  # what it was granted, as far as it has used it; the scheduler says the rest
            self.hosts.limit(Counter(record.slot.node for record in state.replicas.values()))
        self._inbox.put(Restarted())
        for replica, record in state.replicas.items():
            start = StartReplica(replica, record.slot, record.initial, state.position, state.last_checkpoint)
            found = Found(record.slot, names.get(replica, ""), record.talked)
            self.hosts.readopt(replica, found, self._assignment(start, state), self._handle)
        self.hosts.sweep()
        return Master(state, address)

    @property
    def state(self) -> JobState:
        """The job as the state machine knows it. Read only; fields change one at a time."""
        return self._master.state

    # --- events in ---------------------------------------------------------------------------

    def put(self, event: Event) -> None:
        """Give the state machine an event."""
        self._inbox.put(event)

    def say(self, replica: ReplicaId, message: FromReplica) -> None:
        """Give it a replica's message."""
        self._inbox.put(From(replica, message))

    def knows(self, request: str) -> bool:
        """Whether a request of this id was taken before: sent again, it needs nothing but its answer."""
        return request in self.state.requests or request in self.state.answered

    def ask(self, request: Request) -> Answer:
        """Put a request and wait for its answer.

        Raises:
            RequestRefused: It cannot be met.
        """
        with self._answers_lock:
            future = self._answers.setdefault(request.request, Future())
        self._inbox.put(request)
        answer = future.result()
        with self._answers_lock:
            self._answers.pop(request.request, None)
        if answer.error:
            raise RequestRefused(answer.error)
        return answer

    # --- the loop ----------------------------------------------------------------------------

    def _serve(self) -> None:
        ticked_s = 0.0
        while True:
            event = self._next_event()
            now = time.monotonic()
            had_effects = self._take_safely(now, event)
            if now - ticked_s >= TICK_S:
                ticked_s = now
                had_effects |= self._take_safely(now, Tick())
                guarded(self._spec.name, partial(self._on_tick, now))
            elif had_effects:
                guarded(self._spec.name, partial(self._on_tick, now))

    def _next_event(self) -> Event:
        try:
            return self._inbox.get(timeout=TICK_S)
        except queue.Empty:
            return Tick()

    def _take_safely(self, now: float, event: Event) -> bool:
        """Let the state machine take an event; returns whether it wanted anything done."""
        effects: list[Effect] = []
        try:
            effects = self._take(now, event)
        except Exception as error:  # the loop's edge: one bad event must not leave the job without a master
            logger.exception("job %s: handling %r", self._spec.name, event)
            if isinstance(event, Request):
                self._answer(Answer(event.request, error=f"the master failed at it: {error!r}; see its log"))
        used = {effect.slot for effect in effects if isinstance(effect, StartReplica)}
        self.hosts.give_back([slot for slot in _offered(event) if slot not in used])
        return bool(effects)

    def _take(self, now: float, event: Event) -> list[Effect]:
        before = _durable(self.state)
        effects = self._master.handle(now, event)
        for effect in effects:
            if isinstance(effect, Note):
                self.record.note(effect.kind, effect.text, dict(effect.data))
                export_pause(self._spec.name, effect.kind, effect.data)
        self._unsaved = self._unsaved or bool(effects) or _durable(self.state) != before
        if self._unsaved:
            guarded(self._spec.name, self._save)  # tried again with the next event: training does not wait for a disk
        for effect in effects:
            guarded(self._spec.name, partial(self._carry_out, effect))
        return effects

    def _save(self) -> None:
        self._journal.save(self.state, self.hosts.names(), self.record)
        self._unsaved = False

    # --- effects out -------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Tell(replica, message):
                self.hosts.tell(replica, message)
            case StartReplica():
                self._start_replica(effect)
            case StopReplica(replica, kill=kill):
                in_background(lambda: self.hosts.stop(replica, kill=kill))
            case NeedSlots(count):
                in_background(lambda: self._offer(count))
            case Answer():
                self._answer(effect)
            case EndJob():
                in_background(self._end)
            case Note():
                self._forget_old_groups(effect)
                logger.info("job %s: %s: %s", self._spec.name, effect.kind, effect.text)

    def _start_replica(self, start: StartReplica) -> None:
        assignment = self._assignment(start, self.state)
        in_background(lambda: self.hosts.start(start.replica, start.slot, assignment, self._handle))

    def _assignment(self, start: StartReplica, state: JobState) -> Assignment:
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
        limits = state.bounds.limits
        return Assignment(
            session,
            Wiring(spec.name, spec.scaling.group_backend, connect_s=limits.connect_s),
            spec.loop,
            spec.config,
            spec.scaling.use_gpu,
            limits.heartbeat_s,
            0.0 if start.initial else spec.start_delay_s,
        )

    def _offer(self, count: int) -> None:
        try:
            slots = self.hosts.find(count)
        except RequestRefused as error:
            logger.info("job %s: no slots for replacements: %s", self._spec.name, error)
            slots = ()
        self._inbox.put(SlotsFound(slots))

    def _answer(self, answer: Answer) -> None:
        with self._answers_lock:
            future = self._answers.get(answer.request)
        if future is not None and not future.done():
            future.set_result(answer)

    def _forget_old_groups(self, note: Note) -> None:
        """Keys of groups that no one will connect to any more only fill the store."""
        if note.kind != "generation":
            return
        newest = self.state.active.number if self.state.active else 0
        for number in range(self._generation, newest - 1):
            self._store.forget(f"{self._spec.name}/{number}")
        self._generation = max(self._generation, newest - 1)

    def _end(self) -> None:
        try:
            self.hosts.close(RELEASE_GRACE_S)
            self._journal.remove()
        finally:
            self.ended_s = time.monotonic()


def guarded(job: str, work: Callable[[], None]) -> None:
    """Run ``work``; what it raises is logged and holds up nothing else."""
    try:
        work()
    except Exception:  # an edge: the effects that follow must not be lost with this one
        logger.exception("job %s", job)


def in_background(work: Callable[[], None]) -> None:
    """Run ``work`` in a thread of its own: nothing may hold up the next event."""
    threading.Thread(target=work, daemon=True).start()


def _offered(event: Event) -> tuple[Slot, ...]:
    """Slots reserved for an event; what no replica is started on is free again."""
    match event:
        case SlotsFound(slots) | Start(slots) | Resume(slots=slots):
            return slots
        case Resize(add=slots):
            return slots
    return ()


def _durable(state: JobState) -> tuple[object, ...]:
    """What a restarted master must find; heartbeats change nothing of it."""
    return (
        state.phase,
        state.numbers,
        state.target,
        state.size,
        tuple((r, record.ready, record.finished_at) for r, record in state.replicas.items()),
        tuple(state.requests),
        tuple(state.answered),
        state.last_checkpoint,
        state.active,
        state.pending,
        state.pending_committed,
        state.fencing,
        state.lost,
        state.failures,
    )
