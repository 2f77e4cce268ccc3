"""A job whose replicas are threads of one process: real groups, real training, no Ray.

The master is the real state machine; its shell is this file. Killing a replica aborts its groups without
a goodbye, which peers see as a lost connection. Threads share torch's global random numbers: loops must
draw initial weights from a generator of their own.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from raytide.actors.runtime import ReplicaRuntime, Work
from raytide.elastic.effects import Answer, Effect, EndJob, NeedSlots, Note, StartReplica, StopReplica, Tell
from raytide.elastic.master import Event, From, Master, SlotsFound, Start, Tick
from raytide.elastic.messages import Died, FromReplica, Release, Request, Resize
from raytide.elastic.model import Bounds, Slot
from raytide.elastic.state import JobState
from raytide.train.membership import Wiring
from raytide.train.services import Report, SessionSpec
from raytide.train.session import current_session
from support.local_store import LocalStore


class Killed(BaseException):
    """Ends the thread of a killed replica."""


@dataclass
class ThreadOutbox:
    """Sends to the master's queue as one replica; silent once the replica counts as killed."""

    replica: str
    inbox: queue.Queue[Event]
    reports: list[Report]
    dead: bool = False

    def send(self, message: FromReplica) -> None:
        if not self.dead:
            self.inbox.put(From(self.replica, message))

    def report(self, report: Report) -> None:
        if not self.dead:
            self.reports.append(report)


@dataclass
class ThreadJob:
    """Runs a loop on replicas that are threads.

    Args:
        loop: The training loop.
        config: Its argument.
        replicas: How many to start with.
        bounds: Least and most, and limits.
        start_delay_s: How long a newcomer takes to start.
    """

    loop: Callable[[dict[str, Any]], object]
    config: dict[str, Any]
    replicas: int = 1
    bounds: Bounds = field(default_factory=lambda: Bounds(1, 8))
    storage: str = ""
    start_delay_s: float = 0.0
    trace: str = ""
    virtual_shards: int = 0
    checkpoint_every_s: float = 0.0
    free_slots: bool = True

    def __post_init__(self) -> None:
        self.store = LocalStore()
        self.state = JobState("threads", self.bounds)
        address = self.store.address
        self.master = Master(self.state, f"{address.host}:{address.port}")
        self.inbox: queue.Queue[Event] = queue.Queue()
        self.runtimes: dict[str, ReplicaRuntime] = {}
        self.outboxes: dict[str, ThreadOutbox] = {}
        self.reports: list[Report] = []
        self.notes: list[Note] = []
        self.answers: dict[str, Answer] = {}
        self.changed = threading.Condition()
        self.started = False
        self.ended: EndJob | None = None
        self.crash: BaseException | None = None
        self._slots = (Slot("n0", i) for i in range(10_000))
        self._numbers = iter(range(10_000))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    # --- the user's side ---------------------------------------------------------------------

    def start(self, checkpoint: str = "") -> ThreadJob:
        """Begin, from a checkpoint if given."""
        self.started = True
        self.state.last_checkpoint = checkpoint
        self._thread.start()
        self.inbox.put(Start(tuple(next(self._slots) for _ in range(self.replicas))))
        return self

    def post(self, make: Callable[[str], Request]) -> str:
        """Send a request; returns its name."""
        name = f"q{next(self._numbers)}"
        self.inbox.put(make(name))
        return name

    def answer(self, name: str, timeout_s: float = 30.0) -> Answer:
        """Wait for the answer to a request."""
        self.wait(lambda: name in self.answers, timeout_s, f"answer to {name}")
        return self.answers[name]

    def request(self, make: Callable[[str], Request], timeout_s: float = 30.0) -> Answer:
        """Send a request and wait for its answer."""
        return self.answer(self.post(make), timeout_s)

    def resize(self, add: int = 0, remove: tuple[str, ...] = ()) -> str:
        """Ask for a resize, and wait until everybody is connected: the next vote agrees on the switch."""
        slots = self.slots(add)
        name = self.post(lambda q: Resize(q, add=slots, remove=remove))
        self.wait(lambda: name in self.answers or self._all_connected(), what="a published resize")
        return name

    def wait_world(self, size: int, timeout_s: float = 15.0) -> None:
        """Wait until the job has this size, or is about to change it: everybody is connected."""
        self.wait(lambda: self._all_connected() or self._has(size), timeout_s, f"world size {size}")

    def _has(self, size: int) -> bool:
        active = self.state.active
        return active is not None and active.world_size == size and self.state.pending is None

    def _all_connected(self) -> bool:
        pending = self.state.pending
        if pending is None:
            return False
        members = {*pending.participants(), *(self.state.active.members if self.state.active else ())}
        return all(self._connected_to(r, pending.number) for r in members if r in self.runtimes)

    def _connected_to(self, replica: str, number: int) -> bool:
        member = self.runtimes[replica].membership.member
        waiting = member.pending is not None and member.pending.number == number and member.pending_connected
        return waiting or (member.active is not None and member.active.number == number)

    def slots(self, count: int) -> tuple[Slot, ...]:
        return tuple(next(self._slots) for _ in range(count))

    def wait(self, condition: Callable[[], bool], timeout_s: float = 30.0, what: str = "") -> None:
        deadline = time.monotonic() + timeout_s
        while not condition() and self.ended is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: {self.story()}")
            with self.changed:
                self.changed.wait(0.005)

    def wait_step(self, step: int, timeout_s: float = 30.0) -> None:
        self.wait(lambda: self.step >= step, timeout_s, f"step {step}")

    @property
    def step(self) -> int:
        """The most advanced replica's applied steps."""
        return max((r.session.engine.position.step for r in list(self.runtimes.values())), default=0)

    def result(self, timeout_s: float = 60.0) -> EndJob:
        """Wait for the end of the job and of its threads."""
        self.wait(lambda: False, timeout_s, "the end")
        assert self.ended is not None
        if self.crash is not None:
            raise self.crash
        for runtime in list(self.runtimes.values()):
            runtime.join(3.0)
        self.store.close()
        return self.ended

    def abandon(self) -> None:
        """Leave a suspended job."""
        self.ended = EndJob(self.state.phase)
        self.result()

    def kill(self, replica: str) -> None:
        """What kill -9 does to the peers: connections close, nothing more is said."""
        self._silence(replica)
        self.inbox.put(From(replica, Died("killed")))

    def member(self, rank: int) -> str:
        active = self.state.active
        assert active is not None
        return active.members[rank]

    @property
    def world_sizes(self) -> list[int]:
        """World sizes of the generations that trained, in order."""
        return [n.data["world_size"] for n in self.notes if n.kind == "generation"]  # type: ignore[misc] # notes hold data of any kind

    def story(self) -> str:
        places = {n: r.heartbeat() for n, r in self.runtimes.items()}
        notes = "\n".join(f"  {n.kind}: {n.text}" for n in self.notes)
        return f"phase {self.state.phase}, {self.state.active}, {places}\n{notes}"

    # --- the shell ---------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._serve_until_end()
        except BaseException as error:
            self.crash = error
            self.ended = EndJob(self.state.phase, f"the master crashed: {error!r}")
            raise

    def _serve_until_end(self) -> None:
        last_s = time.monotonic()
        while self.ended is None:
            try:
                event: Event = self.inbox.get(timeout=0.1)
            except queue.Empty:
                event = Tick()
            now = time.monotonic()
            effects = self.master.handle(now, event)
            if now - last_s > 0.25:
                effects = [*effects, *self.master.handle(now, Tick())]
                last_s = now
            for effect in effects:
                self._carry_out(effect)
            with self.changed:
                self.changed.notify_all()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case StartReplica():
                self._start(effect)
            case Tell(replica, message):
                if replica in self.runtimes:
                    self.runtimes[replica].deliver(message)
            case NeedSlots(count):
                self.inbox.put(SlotsFound(self.slots(count if self.free_slots else 0)))
            case Answer(request):
                self.answers[request] = effect
            case Note():
                self.notes.append(effect)
            case EndJob():
                self.ended = effect
            case StopReplica(replica, kill=True) if replica in self.outboxes and not self.outboxes[replica].dead:
                self._silence(replica)

    def _silence(self, replica: str) -> None:
        self.outboxes[replica].dead = True
        self.runtimes[replica].membership.close()
        self.runtimes[replica].deliver(Release("killed"))  # its thread ends where it next looks

    def _start(self, start: StartReplica) -> None:
        spec = SessionSpec(
            job="threads",
            replica=start.replica,
            initial=start.initial,
            position=start.position,
            checkpoint=start.checkpoint,
            max_replicas=self.bounds.max_replicas,
            storage=self.storage,
            trace_path=self.trace,
            virtual_shards=self.virtual_shards,
            checkpoint_every_s=self.checkpoint_every_s,
        )
        delay_s = 0.0 if start.initial else self.start_delay_s
        wiring = Wiring("threads", connect_s=self.bounds.limits.connect_s)
        work = Work(spec, wiring, lambda: self.loop, self.config, heartbeat_s=0.1, start_delay_s=delay_s)
        outbox = ThreadOutbox(start.replica, self.inbox, self.reports)
        runtime = ReplicaRuntime(work, outbox, lambda reason: None)
        self.runtimes[start.replica], self.outboxes[start.replica] = runtime, outbox
        runtime.start()


Action = Callable[["ThreadJob", str], object]


class Probe:
    """Does things at places of a loop: ``probe("before backward")`` in the loop, a plan in the test.

    The plan names the rank, the step that began last, and the place. Every entry acts once, in the thread of
    the replica that gets there.
    """

    def __init__(self) -> None:
        self.job: ThreadJob | None = None
        self.fired: list[tuple[int, int, str]] = []
        self._plan: dict[tuple[int, int, str], Action] = {}
        self._lock = threading.Lock()

    def at(self, rank: int, step: int, place: str, action: Action) -> Probe:
        self._plan[rank, step, place] = action
        return self

    def kill(self, rank: int, step: int, place: str) -> Probe:
        return self.at(rank, step, place, kill)

    def __call__(self, place: str) -> None:
        session = current_session()
        if self.job is None or session.inert:
            return
        key = (session.rank, session.standing.journal.begun, place)
        with self._lock:
            action = self._plan.pop(key, None)
            if action is None:
                return
            self.fired.append(key)
        action(self.job, session.spec.replica)

    def check(self) -> None:
        """Everything planned happened."""
        assert not self._plan, f"never reached: {sorted(self._plan)}; fired: {self.fired}"


def kill(job: ThreadJob, replica: str) -> None:
    """Kill the replica that gets there."""
    job.kill(replica)
    raise Killed


def grow(count: int = 1) -> Action:
    """Add replicas; the next vote agrees on the switch."""
    return lambda job, replica: job.resize(add=count)


def shrink(*ranks: int) -> Action:
    """Take ranks out."""
    return lambda job, replica: job.resize(remove=tuple(job.member(rank) for rank in ranks))


def migrate(rank: int) -> Action:
    """Replace a rank by a newcomer."""
    return lambda job, replica: job.resize(add=1, remove=(job.member(rank),))


def fall_behind(victim: int) -> Action:
    """Let the others apply the step, then lose a rank: whoever gets there has not applied it."""

    def action(job: ThreadJob, replica: str) -> None:
        lost, me = job.member(victim), job.runtimes[replica].membership.member
        assert job.state.active is not None
        others = [job.runtimes[r].membership.member for r in job.state.active.members if r not in (replica, lost)]
        job.wait(lambda: all(member.applied > me.applied for member in others), what="the others' step")
        job.kill(lost)
        wait_for_fence(job, replica)

    return action


def wait_for_fence(job: ThreadJob, replica: str) -> None:
    """Go on when the generation has failed, before anything is applied."""
    job.wait(lambda: job.runtimes[replica].membership.member.broken, what="the fence")
