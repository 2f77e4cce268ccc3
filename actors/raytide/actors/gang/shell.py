"""The shell around a rigid job's state machine: events in, journal, effects out."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from raytide.actors.gang.crew import Crew
from raytide.actors.gang.journal import GangJournal, dumps
from raytide.actors.gang.machine import Gang
from raytide.actors.gang.settings import RigidSettings
from raytide.actors.gang.state import (
    Answer,
    Effect,
    End,
    Event,
    GangState,
    Granted,
    Kill,
    Launch,
    Note,
    Phase,
    Release,
    Released,
    Restarted,
    Tick,
    Wanted,
    Watch,
)
from raytide.actors.untyped import Handle
from raytide.actors.views import Event as LogEntry
from raytide.errors import RequestRefused

logger = logging.getLogger(__name__)

TICK_S = 0.5
ANSWER_MARGIN_S = 120.0
"""What ending a job may take beyond its grace: kills, and slots that become free."""


class GangShell:
    """Runs the state machine of one rigid job.

    Args:
        job: Its name.
        settings: The job.
        master: The master's actor.
        on_change: Called after every event.
    """

    def __init__(self, job: str, settings: RigidSettings, master: Handle, on_change: Callable[[], None]) -> None:
        self._job = job
        self._settings = settings
        self._on_change = on_change
        self._inbox: queue.Queue[Event] = queue.Queue()
        self._answers: dict[str, Future[str]] = {}
        self._lock = threading.Lock()
        self._journal = GangJournal(settings.storage, settings.run_id)
        self.crew = Crew(job, settings, master, self.put)
        self.log: list[LogEntry] = []
        self._machine = self._take_over()
        self._saved = ""

    def _take_over(self) -> Gang:
        known = self._journal.load()
        if known is None:
            self.crew.release(())  # of an earlier job of this name whose end nobody saw
            return Gang(GangState(self._job), self._settings)
        state, self.log = known
        if not state.slots:
            self.crew.release(())  # reserved for a start that was not written down
        self.put(Restarted())
        return Gang(state, self._settings)

    def start(self) -> None:
        """Begin to serve events."""
        threading.Thread(target=self._serve, name="raytide-gang", daemon=True).start()

    @property
    def state(self) -> GangState:
        """The job as the state machine knows it. Read only."""
        return self._machine.state

    # --- events in ---------------------------------------------------------------------------

    def put(self, event: Event) -> None:
        """Give the state machine an event."""
        self._inbox.put(event)

    def ask(self, event: Granted | Wanted) -> None:
        """Put a request and wait until it is met.

        Raises:
            RequestRefused: It cannot be met.
        """
        with self._lock:
            future = self._answers.setdefault(event.request, Future())
        self.put(event)
        try:
            error = future.result(self._settings.grace_s + ANSWER_MARGIN_S)
        except TimeoutError:
            raise RequestRefused(f"job {self._job} does not end; it is {self.state.phase}") from None
        finally:
            with self._lock:
                self._answers.pop(event.request, None)
        if error:
            raise RequestRefused(error)

    def _serve(self) -> None:
        ticked_s = 0.0
        while True:
            event = self._next_event()
            now = time.monotonic()
            self._take(now, event)
            if now - ticked_s >= TICK_S:
                ticked_s = now
                self._take(now, Tick())
            self._guarded(self._on_change)

    def _next_event(self) -> Event:
        try:
            return self._inbox.get(timeout=TICK_S)
        except queue.Empty:
            return Tick()

    def _take(self, now: float, event: Event) -> None:
        effects: list[Effect] = []
        try:
            effects = self._machine.handle(now, event)
        except Exception:  # the loop's edge: one bad event must not leave the job without a master
            logger.exception("job %s: handling %r", self._job, event)
        for effect in effects:
            if isinstance(effect, Note):
                self._note(effect)
        self._guarded(self._save)  # tried again with the next event
        for effect in effects:
            self._guarded(partial(self._carry_out, effect))

    def _note(self, note: Note) -> None:
        logger.info("job %s: %s: %s", self._job, note.kind, note.text)
        number = self.log[-1].number + 1 if self.log else 0
        self.log.append(LogEntry(number, time.time(), note.kind, note.text, note.data))

    def _save(self) -> None:
        text = dumps(self.state)
        if text != self._saved:
            self._journal.save(self.state, self.log)
            self._saved = text

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # an edge: what follows must not be lost with this one
            logger.exception("job %s", self._job)

    # --- effects out -------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Launch(attempt):
                slots = self.state.slots
                self._in_background(lambda: self.crew.launch(attempt, slots))
            case Watch(attempt, rank):
                self._in_background(lambda: self.crew.readopt(attempt, rank))
            case End(attempt, rank):
                self._in_background(lambda: self.crew.end(attempt, rank))
            case Kill(attempt, rank):
                self._in_background(lambda: self.crew.kill(attempt, rank))
            case Release():
                self._in_background(self._release)
            case Answer(request, error):
                self._answer(request, error)

    def _release(self) -> None:
        try:
            self.crew.release(self.state.slots)
        finally:
            self.put(Released())

    def _answer(self, request: str, error: str) -> None:
        with self._lock:
            future = self._answers.get(request)
        if future is not None and not future.done():
            future.set_result(error)

    def _in_background(self, work: Callable[[], None]) -> None:
        """Nothing may hold up the next event."""
        threading.Thread(target=self._guarded, args=(work,), daemon=True).start()

    def dismiss(self) -> None:
        """End everything at once; nothing is saved."""
        end = Wanted(f"dismiss-{time.time_ns()}", Phase.STOPPED)
        self.put(end)
        for rank in list(self.state.members):
            self._guarded(partial(self.crew.kill, self.state.attempt, rank))
        self.ask(end)
