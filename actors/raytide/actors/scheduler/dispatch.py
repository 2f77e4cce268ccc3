"""From commands to calls of masters, and from their answers to events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ray.exceptions import RayError

from raytide.actors.scheduler.lanes import Lanes
from raytide.actors.scheduler.ports import Masters
from raytide.core.commands import Command, Scale, Start, Stop, Suspend
from raytide.core.events import Event, Resized, ResizeFailed, Started, Suspended, SuspendFailed
from raytide.core.model import JobId
from raytide.errors import RaytideError
from raytide.state import Work

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """A job came to harm through no fault of its own.

    Attributes:
        job: Which.
        fault: ``node`` or ``platform``.
        reason: What happened.
    """

    job: JobId
    fault: str
    reason: str


Heard = Event | Failure


class Dispatcher:
    """Carries out commands in the lanes of their jobs.

    Args:
        masters: Does it.
        work: What a job's master needs, by name.
        hear: Takes what becomes of it.
    """

    def __init__(self, masters: Masters, work: Callable[[JobId], Work], hear: Callable[[Heard], None]) -> None:
        self._masters = masters
        self._work = work
        self._hear = hear
        self._lanes = Lanes()

    def carry_out(self, command: Command, request: str) -> None:
        """Begin to carry out a command; returns at once.

        Args:
            command: What shall be done.
            request: Its id, the same when it is said again.
        """
        match command:
            case Start(job, placement=placement):
                step = self._step(
                    job,
                    lambda: self._masters.start(job, self._work(job), request, dict(placement.gpus)),
                    _crash,
                    Started,  # its processes still come up, but from here on it can be scaled and suspended
                )
                self._lanes.put(job, step)
            case Scale(job, placement=placement):
                # Not in the lane: a newcomer may be minutes on its way, and what comes after calls it off.
                step = self._step(
                    job, lambda: self._masters.scale(job, request, dict(placement.gpus)), ResizeFailed, Resized
                )
                threading.Thread(target=step, name=f"raytide-scale-{job}", daemon=True).start()
            case Suspend(job):
                self._put(job, lambda: self._masters.suspend(job, request), SuspendFailed, Suspended)
            case Stop(job):
                self._put(job, lambda: self._masters.stop(job, request), _crash)

    def ask(self, job: JobId) -> None:
        """Let a job say how it stands; one that cannot is lost."""
        self._put(job, lambda: self._masters.ask(job), _crash)

    def forget(self, job: JobId) -> None:
        """A job has ended."""

        def run() -> None:
            self._safely(job, lambda: self._masters.forget(job))

        self._lanes.put(job, run)

    def _put(
        self,
        job: JobId,
        step: Callable[[], None],
        failed: Callable[[JobId, str], Heard],
        done: Callable[[JobId], Event] | None = None,
    ) -> None:
        self._lanes.put(job, self._step(job, step, failed, done))

    def _step(
        self,
        job: JobId,
        step: Callable[[], None],
        failed: Callable[[JobId, str], Heard],
        done: Callable[[JobId], Event] | None = None,
    ) -> Callable[[], None]:
        def run() -> None:
            problem = self._safely(job, step)
            if problem:
                self._hear(failed(job, problem))
            elif done is not None:
                self._hear(done(job))

        return run

    @staticmethod
    def _safely(job: JobId, step: Callable[[], None]) -> str:
        """What went wrong, in words; empty if nothing did."""
        try:
            step()
        except (RaytideError, RayError) as error:
            logger.info("job %s: %s", job, error)
            return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        except Exception as error:  # the lane's edge: a defect in one job's driver must not silence the job
            logger.exception("job %s", job)
            return repr(error)
        return ""


def _crash(job: JobId, reason: str) -> Failure:
    return Failure(job, "platform", reason)
