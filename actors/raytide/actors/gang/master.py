"""The actor that runs one rigid job: what the scheduler, users and its processes can call.

It speaks the calls of :class:`~raytide.actors.master.JobMaster`. It holds no slot itself; while it is away, the
job goes on.
"""

from __future__ import annotations

import os
import threading
import time

import ray

from raytide.actors.gang.layout import grant_of, slots_of
from raytide.actors.gang.settings import DRIVER, RigidSettings
from raytide.actors.gang.shell import GangShell
from raytide.actors.gang.state import GangState, Granted, Phase, Wanted
from raytide.actors.grants import Grant
from raytide.actors.status import JobStatus, StatusReporter
from raytide.actors.untyped import actor_class, in_group
from raytide.actors.views import JobView, MemberView
from raytide.errors import RequestRefused

IDLE_AFTER_END_S = 600.0
"""A job's results can be asked for this long after its end."""


class GangMaster:
    """Runs one rigid job.

    Args:
        job: Its name.
        settings: The job. A restarted actor gets the same ones and finds its journal.
    """

    def __init__(self, job: str, settings: RigidSettings) -> None:
        self._job = job
        self._settings = settings
        self._handle = ray.get_runtime_context().current_actor
        self._starting = threading.Lock()
        self._used_s = time.monotonic()
        self._reporter: StatusReporter | None = None
        self._shell = GangShell(job, settings, self._handle, self._on_change)
        self._reporter = StatusReporter(job, self._status)
        self._shell.start()

    # --- calls of the scheduler --------------------------------------------------------------

    @in_group("requests")
    def start_on(self, request: str, grant: Grant) -> None:
        """Start, or go on after a suspension, on exactly these slots; returns when its processes are starting.

        Raises:
            RequestRefused: They are not free, are not as many as it needs, or the job is over.
        """
        slots = slots_of(grant)
        with self._starting:
            state = self._shell.state
            if request in state.answered or state.slots:
                return  # said again after a restart of the scheduler
            if state.phase not in (Phase.STARTING, Phase.SUSPENDED):
                raise RequestRefused(f"job {self._job} has {state.phase}")
            if len(slots) != self._settings.gpus:
                raise RequestRefused(f"job {self._job} runs on {self._settings.gpus} slots, not on {len(slots)}")
            self._shell.crew.reserve(slots)
            self._shell.ask(Granted(request, slots))

    @in_group("requests")
    def become(self, request: str, grant: Grant) -> None:
        """Hold exactly these slots: those that it has.

        Raises:
            RequestRefused: It has others. It never changes its size, and never moves.
        """
        held = grant_of(self._shell.state.slots)
        if held != {node: count for node, count in grant.items() if count > 0}:
            raise RequestRefused(f"job {self._job} is rigid: it stays on its {sum(held.values())} slots")

    @in_group("requests")
    def suspend(self, request: str) -> None:
        """Let its processes save and leave; returns when every slot is free.

        Raises:
            RequestRefused: It is over, or was stopped meanwhile.
        """
        self._shell.ask(Wanted(request, Phase.SUSPENDED))

    @in_group("requests")
    def stop(self, request: str) -> None:
        """End the job; its processes may save. Returns when every slot is free.

        Raises:
            RequestRefused: Its slots do not become free.
        """
        self._shell.ask(Wanted(request, Phase.STOPPED))

    @in_group("requests")
    def dismiss(self) -> None:
        """End every process of the job at once, and take no slot any more."""
        self._shell.dismiss()

    @in_group("views")
    def say_again(self) -> None:
        """The scheduler wants to know how the job stands."""
        if self._reporter is not None:
            self._reporter.say_again()

    def _status(self) -> JobStatus:
        s = self._shell.state
        return JobStatus(
            job=self._job,
            phase=str(s.phase),
            released=s.released,
            world_size=self._world_size(s),
            generation=s.attempt,
            error=s.error,
            fault=s.fault,
        )

    def _world_size(self, state: GangState) -> int:
        if state.phase is not Phase.RUNNING:
            return 0
        return len(state.slots) if self._settings.launch == DRIVER else len(state.members)

    # --- calls of processes ------------------------------------------------------------------

    @in_group("messages")
    def wants(self, attempt: int) -> bool:
        """Whether the processes of this attempt are still needed; the question renews their lease."""
        return self._shell.state.wants(attempt)

    # --- views -------------------------------------------------------------------------------

    @in_group("views")
    def owner_lives(self) -> None:
        """Somebody still wants the results."""
        self._used_s = time.monotonic()

    @in_group("views")
    def view(self, since: int = 0) -> JobView:
        """The job as it stands, with the events from number ``since`` on. It has neither steps nor metrics."""
        s, size = self._shell.state, self._settings.gpus
        return JobView(
            name=self._job,
            phase=str(s.phase),
            step=0,
            epoch=0,
            world_size=self._world_size(s),
            generation=s.attempt,
            least=size,
            most=size,
            step_s=0.0,
            samples_per_s=0.0,
            metrics={},
            members=self._members(s),
            events=tuple(entry for entry in list(self._shell.log) if entry.number >= since),
            checkpoint="",
            error=s.error,
            released=s.released,
        )

    def _members(self, state: GangState) -> tuple[MemberView, ...]:
        slots = state.slots
        return tuple(
            MemberView(
                replica=f"rank-{rank}",
                rank=rank,
                node=slots[rank].node if slots else "",
                slot=slots[rank].index if slots else 0,
                place="left" if member.left else "running" if member.pid else "starting",
                step_busy_s=0.0,
                pid=member.pid,
            )
            for rank, member in sorted(state.members.items())
        )

    @in_group("views")
    def logs(self, rank: int = 0, lines: int = 100) -> str:
        """The last lines that a process of this attempt has written, to standard output and standard error.

        Raises:
            RequestRefused: There is no such rank.
        """
        s = self._shell.state
        if rank not in s.members:
            raise RequestRefused(f"there is no rank {rank}: the job has {len(s.members)} processes")
        text = self._shell.crew.tail(s.attempt, rank, lines)
        return s.members[rank].tail if text is None else text

    @in_group("views")
    def pid(self) -> int:
        """Process id of the master."""
        return os.getpid()

    @in_group("views")
    def metrics(self) -> list[dict[str, float]]:
        """None: its processes report to nobody."""
        return []

    # --- time --------------------------------------------------------------------------------

    def _on_change(self) -> None:
        if self._reporter is not None:
            self._reporter.look()
        if not self._shell.state.released:
            self._used_s = time.monotonic()
        elif time.monotonic() - self._used_s > IDLE_AFTER_END_S:
            ray.kill(self._handle, no_restart=True)


GangActor = actor_class(
    GangMaster,
    concurrency_groups={"messages": 4, "requests": 64, "views": 4},
    num_cpus=0,
    max_restarts=-1,
    max_task_retries=-1,
)
