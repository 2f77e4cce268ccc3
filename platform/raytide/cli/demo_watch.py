"""Watching a job from a thread, while the main thread asks things of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from raytide.actors.progress import Progress
from raytide.actors.views import JobView
from raytide.errors import JobFailed
from raytide.train import JobHandle

POLL_S = 0.2
LIMIT_S = 150.0


class Watch:
    """Shows the progress of a job, and lets the main thread wait for what it sees.

    Args:
        handle: The job.
    """

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle
        self._progress = Progress(handle.name, shown=True)
        self._over = threading.Event()
        self._view: JobView = handle.view()
        self._thread = threading.Thread(target=self._look, name="raytide-watch", daemon=True)

    def __enter__(self) -> Self:
        self._progress.__enter__()
        self._progress.update(self._view)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._progress.__exit__(kind, error, trace)

    @property
    def view(self) -> JobView:
        """The job as it stood a moment ago."""
        return self._view

    def say(self, text: str) -> None:
        """Tell what happens next, above the line that changes."""
        self._progress.note(f"--- {text}")

    def until(self, holds: Callable[[JobView], bool], what: str, *, ends: bool = False) -> None:
        """Wait until something holds.

        Raises:
            JobFailed: The job ended before (unless it ``ends``), or it took too long.
        """
        deadline_s = time.monotonic() + LIMIT_S
        while not holds(view := self._view):
            if view.phase == "failed":
                self._handle.result()  # raises what happened
            if view.ended and not ends:
                raise JobFailed(f"the job {view.phase} too early, waiting until {what}: train longer with --epochs")
            if not self._thread.is_alive() or time.monotonic() > deadline_s:
                raise JobFailed(
                    f"waited {LIMIT_S:.0f} s in vain until {what}: the job {view.phase} at step {view.step}"
                )
            time.sleep(POLL_S)

    def train_on(self, seconds: float, steps: int) -> None:
        """Let the job train for a while, and for some steps."""
        until_s, step = time.monotonic() + seconds, self._view.step + steps
        self.until(lambda view: time.monotonic() >= until_s and view.step >= step, f"step {step} is done")

    def _look(self) -> None:
        seen = len(self._view.events)
        while not self._over.is_set():
            view = self._handle.view(seen)
            seen += len(view.events)
            self._progress.update(view)
            self._view = view
            if view.ended:
                return
            self._over.wait(POLL_S)
