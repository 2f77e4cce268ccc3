"""The scheduler's loop: what happened goes in, one round decides, is written down, acknowledged, and carried out.

It needs no Ray: masters are a port, the clock is passed in.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from raytide.actors.scheduler.book import Book
from raytide.actors.scheduler.dispatch import Dispatcher, Failure, Heard
from raytide.actors.scheduler.news import events_of
from raytide.actors.scheduler.ports import Masters
from raytide.actors.status import JobStatus
from raytide.core import Controller
from raytide.core.commands import Command, Refuse, Wake
from raytide.core.events import (
    Event,
    NodeDraining,
    NodeJoined,
    NodeLost,
    NodeTaken,
    Restored,
    Submitted,
    TenantsChanged,
    Timer,
)
from raytide.core.model import JobId
from raytide.errors import RaytideError
from raytide.state import NewJob, Round, StateStore, Superseded

logger = logging.getLogger(__name__)

MOST_ENTRIES = 2000
"""Of one round: more wait for the next one."""

MOST_TICKS = 10_000
"""Times of decisions that wait to be exported."""

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """Something that happened.

    Attributes:
        events: What it means to the controller, as it stands when the round begins.
        written: Told when the round is in the store.
    """

    events: Callable[[], Sequence[Event]]
    written: Future[None] = field(default_factory=Future)


class Engine:
    """Schedules.

    Args:
        controller: Decides.
        store: Where every round is written before it is carried out.
        incarnation: Of this scheduler, from the store.
        masters: Carry it out.
        clock: Seconds since 1970.

    Attributes:
        book: What is known of jobs beside the controller.
        submissions: Names of jobs by the keys under which they were handed in.
        tick_s: What the last decision took.
        ticks: What each decision took that was not exported yet.
    """

    def __init__(
        self,
        controller: Controller,
        store: StateStore,
        incarnation: int,
        masters: Masters,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._store = store
        self._incarnation = incarnation
        self._clock = clock
        self._lock = threading.RLock()
        self._inbox: queue.Queue[Entry] = queue.Queue()
        self._new: list[NewJob] = []
        self._number = 0
        self._now = 0.0
        self._wake_s: float | None = None
        self.book = Book(controller.table)
        self.submissions = store.submissions()
        self._names = set(self.submissions.values())
        self.tick_s: float = 0.0
        self.ticks: deque[float] = deque(maxlen=MOST_TICKS)
        self._dispatcher = Dispatcher(masters, lambda job: self.book.pages[job].work, self.hear)

    # --- what happened -----------------------------------------------------------------------

    def put(self, events: Callable[[], Sequence[Event]]) -> Future[None]:
        """Something happened; ``events`` is asked when the round begins. Done when it is in the store.

        A :class:`~raytide.errors.RaytideError` of ``events`` is the future's, and concerns nothing else.
        """
        entry = Entry(events)
        self._inbox.put(entry)
        return entry.written

    def tell(self, *events: Event) -> Future[None]:
        """These events happened."""
        return self.put(lambda: events)

    def submit(self, new: NewJob) -> Future[None]:
        """A job is handed in. Done when it is in the store; one with a known key changes nothing."""
        return self.put(lambda: self.submitted(new))

    def submitted(self, new: NewJob) -> Sequence[Event]:
        """What a submission means now: nothing if it was handed in before.

        Raises:
            RaytideError: The name is taken.
        """
        name = new.spec.job
        if new.submission in self.submissions:
            return ()
        if name in self._names:
            raise RaytideError(f"there was a job {name!r} before: choose another name")
        self._new.append(new)
        self._names.add(name)
        self.submissions[new.submission] = name
        self.book.enter(new.spec, new.work)
        return (Submitted(new.spec),)

    def status(self, status: JobStatus) -> None:
        """A master told how its job stands."""
        self.put(lambda: self._status(status))

    def _status(self, status: JobStatus) -> Sequence[Event]:
        page = self.book.pages.get(status.job)
        if page is None:
            return ()
        page.status = status
        return events_of(self._controller.table[status.job], status)

    def hear(self, heard: Heard) -> None:
        """What became of a command."""
        if isinstance(heard, Failure):
            self.put(lambda: self.book.failed(heard.job, heard.fault, heard.reason))
        else:
            self.tell(heard)

    # --- questions ---------------------------------------------------------------------------

    def look(self, question: Callable[[Controller, Book], T]) -> T:
        """Answer a question from the present state, between two rounds."""
        with self._lock:
            return question(self._controller, self.book)

    # --- the loop ----------------------------------------------------------------------------

    def run(self) -> None:
        """Serve for ever; for a thread of its own."""
        while True:
            try:
                self.serve(self._next_entries())
            except Superseded:
                logger.exception("another scheduler took over")
                os._exit(0)
            except Exception:  # the loop's edge: half a round is in memory; what is written is whole, so begin from it
                logger.exception("scheduler: a round failed; starting again from the store")
                os._exit(1)

    def _next_entries(self) -> list[Entry]:
        entries: list[Entry] = []
        wait_s = None if self._wake_s is None else max(0.0, self._wake_s - self._clock())
        try:
            entries.append(self._inbox.get(timeout=wait_s))
            while len(entries) < MOST_ENTRIES:
                entries.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return entries

    def serve(self, entries: Sequence[Entry]) -> None:
        """One round."""
        began_s = time.perf_counter()
        taken: list[Entry] = []
        with self._lock:
            self._now = max(self._now, self._clock())
            events: list[Event] = []
            if self._wake_s is not None and self._now >= self._wake_s:
                self._wake_s = None
                events.append(Timer())
            for entry in entries:
                try:
                    events += entry.events()
                    taken.append(entry)
                except RaytideError as error:
                    entry.written.set_exception(error)
            events = applicable(events, self._controller)
            commands = self._controller.tick(self._now, events)
            self.tick_s = time.perf_counter() - began_s
            self.ticks.append(self.tick_s)
            said = self._number_commands(commands)
            self.book.commanded(said)
            made = self._written(events, commands)
        self._write(made)
        for entry in taken:
            entry.written.set_result(None)
        self._carry_out(said)
        self._forget_ended(made)

    def _number_commands(self, commands: Sequence[Command]) -> list[tuple[Command, str]]:
        self._number += 1
        prefix = f"s{self._incarnation}.{self._number}"
        return [(command, f"{prefix}.{place}") for place, command in enumerate(commands)]

    def _written(self, events: Sequence[Event], commands: Sequence[Command]) -> Round:
        new_jobs, self._new = tuple(self._new), []
        return Round(
            incarnation=self._incarnation,
            number=self._number,
            now_s=self._now,
            events=events,
            commands=commands,
            new_jobs=new_jobs,
            jobs=self.book.changed(self._now, touched(events, commands)),
            nodes=[event.node for event in events if isinstance(event, NodeJoined)],
            nodes_gone=[event.node for event in events if isinstance(event, NodeLost)],
        )

    def _write(self, entry: Round) -> None:
        """Nothing is acknowledged or carried out before it is written."""
        if entry.events or entry.commands or entry.jobs:
            self._store.commit(entry)

    def _carry_out(self, said: Sequence[tuple[Command, str]]) -> None:
        for command, request in said:
            if isinstance(command, Wake):
                self._wake_s = command.at_s
            elif not isinstance(command, Refuse):
                self._dispatcher.carry_out(command, request)

    def _forget_ended(self, entry: Round) -> None:
        for row in entry.jobs:
            if row.past.ended_s is not None and row.past.first_start_s is not None:
                self._dispatcher.forget(row.spec.job)

    # --- the beginning -----------------------------------------------------------------------

    def begin(self, events: Sequence[Event], not_before_s: float) -> None:
        """The first round, before any other.

        Args:
            events: What there is already.
            not_before_s: The clock of the last round of the scheduler before.
        """
        self._now = not_before_s
        self.serve([Entry(lambda: events)])

    def say_again(self, commands: Sequence[tuple[Command, str]], running: Sequence[JobId]) -> None:
        """Carry out again what the scheduler before may not have, and let those that run say how they stand."""
        for command, request in commands:
            self._dispatcher.carry_out(command, request)
        for job in running:
            self._dispatcher.ask(job)


def touched(events: Sequence[Event], commands: Sequence[Command]) -> set[JobId] | None:
    """Jobs of which something may have changed; None if it may be any."""
    found: set[JobId] = set()
    for event in events:
        match event:
            case Submitted(spec) | Restored(spec):
                found.add(spec.job)
            case NodeLost() | TenantsChanged():
                return None
            case NodeJoined() | NodeTaken() | NodeDraining() | Timer():
                continue
            case _:
                found.add(event.job)
    return found | {command.job for command in commands if not isinstance(command, Wake)}


def applicable(events: Sequence[Event], controller: Controller) -> list[Event]:
    """Events without those of jobs and nodes that are not there: answers come late, and news may cross."""
    jobs = set(controller.table.live) | set(controller.table.resting)
    nodes = {node.node for node in controller.table.cluster.nodes}
    found: list[Event] = []
    for event in events:
        match event:
            case Submitted(spec) | Restored(spec):
                jobs.add(spec.job)
                applies = True
            case NodeJoined(node):
                applies = node.node not in nodes
                nodes.add(node.node)
            case NodeLost(name):
                applies = name in nodes
                nodes.discard(name)
            case NodeDraining(name) | NodeTaken(name):
                applies = name in nodes
            case Timer() | TenantsChanged():
                applies = True
            case _:
                applies = event.job in jobs
        if applies:
            found.append(event)
        else:
            logger.info("nothing to apply it to: %s", event)
    return found
