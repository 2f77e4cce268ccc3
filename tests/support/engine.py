"""A scheduler's engine without Ray: masters that do as they are told, or not, and restarts at any moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from raytide.actors.grants import Grant
from raytide.actors.scheduler.adoption import first_events, open_commands
from raytide.actors.scheduler.engine import Engine, Entry
from raytide.actors.scheduler.work import RIGID, Terms, sealed
from raytide.actors.status import JobStatus
from raytide.core import Controller, JobSpec, Node, TenantTree
from raytide.core.policy import Policy
from raytide.errors import RequestRefused
from raytide.policies.placement import Pack
from raytide.state import NewJob, StateStore, Work

WAIT_S = 10.0


def new_job(spec: JobSpec, key: str = "", **terms: object) -> NewJob:
    """A job as a client hands it in."""
    role = spec.roles[0]
    return NewJob(spec, sealed(RIGID, Terms(role.least, role.most, **terms), "{}"), key or f"key-{spec.job}")


class FakeMasters:
    """Keeps what every job holds; jobs outlive schedulers.

    Attributes:
        calls: ``(what, job, request)``, in order.
        holds: Grants of jobs that run.
        refuse: ``(what, job)`` that are refused, with the reason.
        block: ``(what, job)`` that wait until their event is set.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.holds: dict[str, dict[str, int]] = {}
        self.done: set[str] = set()
        self.refuse: dict[tuple[str, str], str] = {}
        self.block: dict[tuple[str, str], threading.Event] = {}
        self._lock = threading.Lock()

    def start(self, job: str, work: Work, request: str, grant: Grant) -> None:
        self._call("start", job, request)
        self.holds[job] = dict(grant)

    def scale(self, job: str, request: str, grant: Grant) -> None:
        self._call("scale", job, request)
        self.holds[job] = dict(grant)

    def suspend(self, job: str, request: str) -> None:
        self._call("suspend", job, request)
        self.holds.pop(job, None)

    def stop(self, job: str, request: str) -> None:
        self._call("stop", job, request)
        self.holds.pop(job, None)

    def ask(self, job: str) -> None:
        self._call("ask", job, "")
        if job not in self.holds:
            raise RequestRefused(f"job {job} has no master any more")

    def forget(self, job: str) -> None:
        self._call("forget", job, "")

    def _call(self, what: str, job: str, request: str) -> None:
        blocked = self.block.get((what, job))
        if blocked is not None and not blocked.wait(WAIT_S):
            raise RequestRefused("nobody let it go on")
        with self._lock:
            if (what, job) in self.refuse:
                raise RequestRefused(self.refuse[what, job])
            if (what, job, request) not in self.calls or not request:
                self.calls.append((what, job, request))

    def named(self, what: str) -> list[str]:
        """Jobs for which this was called, in order."""
        with self._lock:
            return [job for name, job, _ in self.calls if name == what]


class Desk:
    """An engine on a store in a folder, whose rounds the test makes.

    Args:
        folder: Of the store.
        policy: Who decides.
        nodes: The cluster.
        masters: Of the scheduler before, for a restart.
    """

    def __init__(self, folder: Path, policy: Policy, nodes: Sequence[Node], masters: FakeMasters | None = None) -> None:
        self.masters = masters or FakeMasters()
        self.store = StateStore(f"sqlite:///{folder}/state.db")
        self.now = 1000.0
        incarnation = self.store.begin_incarnation("{}")
        saved = self.store.load()
        self.controller = Controller(policy, Pack())
        self.engine = Engine(self.controller, self.store, incarnation, self.masters, lambda: self.now)
        for row, work in saved.jobs:
            self.engine.book.restore(row, work)
        self.engine.begin(first_events(saved, nodes, TenantTree()), saved.now_s)
        running = [row.spec.job for row, _ in saved.jobs if row.past.state == "running"]
        self.engine.say_again(open_commands(saved), running)

    def round(self) -> None:
        """Serve what is there now."""
        entries: list[Entry] = []
        while not self.engine._inbox.empty():
            entries.append(self.engine._inbox.get())
        self.now += 1.0
        self.engine.serve(entries)
        self.controller.validate()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Serve rounds until something holds; answers of masters come from their own threads."""
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline_s, f"never: {what}: {self.stories()}"
            self.round()
            time.sleep(0.002)

    def state(self, job: str) -> str:
        """The job's state, in the controller."""
        return str(self.controller.table[job].state)

    def until_state(self, state: str, *jobs: str) -> None:
        """Serve rounds until jobs are in a state."""
        self.until(lambda: all(self.state(job) == state for job in jobs), f"{jobs} {state}")

    def submit(self, *specs: JobSpec) -> None:
        """Hand in jobs, in one round."""
        written = [self.engine.submit(new_job(spec)) for spec in specs]
        self.round()
        for done in written:
            done.result(0)

    def ends(self, job: str, phase: str = "succeeded", error: str = "") -> None:
        """A job's master says that it is over."""
        self.masters.holds.pop(job, None)
        self.engine.status(JobStatus(job, phase, released=True, error=error))
        self.round()

    def stories(self) -> dict[str, tuple[str, ...]]:
        """What happened to everybody, for a failed test."""
        return {name: job.story() for name, job in self.controller.table.all.items()}
