"""A job whose replicas are threads of one process: real groups, real training, no Ray.

The master is the real state machine; its shell is this file. Killing a replica aborts its groups without
a goodbye, which peers see as a lost connection.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from raytide.actors.runtime import ReplicaRuntime, Work
from raytide.collective import StoreServer
from raytide.elastic.effects import Answer, Effect, EndJob, NeedSlots, Note, StartReplica, StopReplica, Tell
from raytide.elastic.master import Event, From, Master, SlotsFound, Start, Tick
from raytide.elastic.messages import Died, FromReplica, Request
from raytide.elastic.model import Bounds, Slot
from raytide.elastic.state import JobState
from raytide.train.membership import Wiring
from raytide.train.services import Report, SessionSpec


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
        bounds: Least and most.
    """

    loop: Callable[[dict[str, Any]], object]
    config: dict[str, Any]
    replicas: int = 1
    bounds: Bounds = field(default_factory=lambda: Bounds(1, 8))
    storage: str = ""
    start_delay_s: float = 0.0
    checkpoint: str = ""

    def __post_init__(self) -> None:
        self.store = StoreServer("127.0.0.1")
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
        self.ended: EndJob | None = None
        self._slots = (Slot("n0", i) for i in range(10_000))
        self._numbers = iter(range(10_000))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    # --- the user's side ---------------------------------------------------------------------

    def start(self) -> ThreadJob:
        self._thread.start()
        self.inbox.put(Start(tuple(next(self._slots) for _ in range(self.replicas))))
        return self

    def request(self, make: Callable[[str], Request], timeout_s: float = 30.0) -> Answer:
        """Send a request and wait for its answer."""
        name = f"q{next(self._numbers)}"
        self.inbox.put(make(name))
        self.wait(lambda: name in self.answers, timeout_s, f"answer to {name}")
        return self.answers[name]

    def slots(self, count: int) -> tuple[Slot, ...]:
        return tuple(next(self._slots) for _ in range(count))

    def wait(self, condition: Callable[[], bool], timeout_s: float = 30.0, what: str = "") -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: condition() or self.ended is not None, timeout_s):
                raise TimeoutError(f"{what}: {self.story()}")

    def wait_step(self, step: int, timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while max((r.session.engine.position.step for r in self.runtimes.values()), default=0) < step:
            if time.monotonic() > deadline or self.ended is not None:
                raise TimeoutError(f"step {step}: {self.story()}")
            time.sleep(0.002)

    def result(self, timeout_s: float = 60.0) -> EndJob:
        with self.changed:
            if not self.changed.wait_for(lambda: self.ended is not None, timeout_s):
                raise TimeoutError(self.story())
        assert self.ended is not None
        for runtime in list(self.runtimes.values()):
            runtime.join(10.0)
        self.store.close()
        return self.ended

    def kill(self, replica: str) -> None:
        """What kill -9 does to the peers: connections close, nothing more is said."""
        self.outboxes[replica].dead = True
        self.runtimes[replica].membership.close()
        self.inbox.put(From(replica, Died("killed")))

    def member(self, rank: int) -> str:
        active = self.state.active
        assert active is not None
        return active.members[rank]

    def story(self) -> str:
        places = {n: r.heartbeat() for n, r in self.runtimes.items()}
        notes = "\n".join(f"  {n.kind}: {n.text}" for n in self.notes)
        return f"phase {self.state.phase}, {self.state.active}, {places}\n{notes}"

    # --- the shell ---------------------------------------------------------------------------

    def _serve(self) -> None:
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
                self.inbox.put(SlotsFound(self.slots(count)))
            case Answer(request):
                self.answers[request] = effect
            case Note():
                self.notes.append(effect)
            case EndJob():
                self.ended = effect
            case StopReplica():
                pass

    def _start(self, start: StartReplica) -> None:
        spec = SessionSpec(
            job="threads",
            replica=start.replica,
            initial=start.initial,
            position=start.position,
            checkpoint=start.checkpoint,
            max_replicas=self.bounds.max_replicas,
            storage=self.storage,
        )
        delay_s = 0.0 if start.initial else self.start_delay_s
        work = Work(spec, Wiring("threads"), lambda: self.loop, self.config, start_delay_s=delay_s)
        outbox = ThreadOutbox(start.replica, self.inbox, self.reports)
        runtime = ReplicaRuntime(work, outbox, lambda reason: None)
        self.runtimes[start.replica], self.outboxes[start.replica] = runtime, outbox
        runtime.start()
