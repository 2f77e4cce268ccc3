"""Checkpoints written beside training, by rank 0, and the halts that begin with one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from raytide.elastic.member import HaltNow
from raytide.elastic.messages import FromReplica, Saved, SaveFailed
from raytide.elastic.model import Cost, Position
from raytide.errors import RaytideError
from raytide.train.captured import Captured
from raytide.train.checkpoint import CheckpointMeta, CheckpointStore
from raytide.train.standing import Standing

logger = logging.getLogger(__name__)


class Saver:
    """Writes checkpoints in a thread; the loop pauses for a copy of the state only.

    Args:
        store: Where they go; None refuses to save.
        send: Tells the master how it went.
    """

    def __init__(self, store: CheckpointStore | None, send: Callable[[FromReplica], None]) -> None:
        self._store = store
        self._send = send
        self._thread = ThreadPoolExecutor(1, "raytide-checkpoint")
        self._writing: Future[None] | None = None
        self.saved_s = time.monotonic()

    def save(self, state: Captured, meta: CheckpointMeta, request: str) -> None:
        """Copy ``state`` and write it in the background.

        Waits for the write before: copies of the state must not pile up where storage is slower than training.
        """
        self.wait()
        started_s = time.perf_counter()
        copy = state.cloned("cpu")
        pause_s = time.perf_counter() - started_s
        self.saved_s = time.monotonic()
        self._writing = self._thread.submit(self._write, copy, meta, request, pause_s)

    def _write(self, state: Captured, meta: CheckpointMeta, request: str, pause_s: float) -> None:
        try:
            path = self.write_now(state, meta)
        except Exception as error:  # the thread's edge: a request must be answered, and training goes on
            logger.exception("writing a checkpoint")
            self._send(SaveFailed(request, str(error)))
        else:
            self._send(Saved(request, path, meta.position, Cost(pause_s, 0.0, state.size_bytes)))

    def write_now(self, state: Captured, meta: CheckpointMeta) -> str:
        """Write ``state`` before returning; returns the path.

        Raises:
            RaytideError: It could not be written.
        """
        if self._store is None:
            raise RaytideError("there is nowhere to save to: set RunConfig.storage_path")
        return self._store.write(state, meta).path

    @property
    def writing(self) -> bool:
        """A checkpoint is being written."""
        return self._writing is not None and not self._writing.done()

    def wait(self) -> None:
        """Wait for what is being written."""
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Wait, and end the thread."""
        self._thread.shutdown(wait=True)


class Saves:
    """When a replica saves.

    Args:
        standing: Where it stands; rank 0 saves.
        store: Where checkpoints go, None for nowhere.
        send: Tells the master.

    Attributes:
        resume_position: Where a job saved at a position goes on.
        metrics: The last ones reported; part of a checkpoint's description.
    """

    def __init__(self, standing: Standing, store: CheckpointStore | None, send: Callable[[FromReplica], None]) -> None:
        self._standing = standing
        self._saver = Saver(store, send)
        self._send = send
        self._wanted = False
        self.resume_position: Callable[[Position], Position] = lambda position: position
        self.metrics: dict[str, float] = {}

    def if_asked(self) -> None:
        """Save at this boundary if somebody asked for it, or if it is time."""
        at = self._standing
        every_s = at.spec.checkpoint_every_s
        overdue = every_s and not self._saver.writing and time.monotonic() - self._saver.saved_s > every_s
        requests = [save.request for save in at.membership.take_saves()]
        if not requests and (overdue or self._wanted):
            requests = [""]
        self._wanted = False
        for request in requests:
            self.here(request)

    def here(self, request: str = "") -> None:
        """Save the state as it is, in the background."""
        at = self._standing
        if at.rank == 0:
            position = self.resume_position(at.engine.position)
            self._saver.save(at.carrier.capture(position), self._meta(position), request)

    def at_next_boundary(self) -> None:
        """Save when the step in flight is certain: until then the state is that of before or after it."""
        self._wanted = True

    def halt(self, halt: HaltNow) -> None:
        """All ranks stand at the same boundary, and stop there; rank 0 saves first."""
        at = self._standing
        position, path = at.engine.position, ""
        if halt.save and at.rank == 0:
            at.place = "saving"
            try:
                path = self._saver.write_now(at.carrier.capture(), self._meta(position))
            except Exception as error:  # whatever the storage raised: the halt is called off, training goes on
                logger.exception("writing a checkpoint")
                self._send(SaveFailed(halt.request, str(error)))
                at.membership.await_release()
                return
        at.membership.halted(position, path)

    def finish(self) -> None:
        """The loop has returned: do what was asked for too late for a boundary, and wait for it."""
        self.if_asked()
        self._saver.wait()

    def close(self) -> None:
        """Wait for what is being written."""
        self._saver.close()

    def _meta(self, position: Position) -> CheckpointMeta:
        active = self._standing.generation
        return CheckpointMeta(
            job=self._standing.spec.job,
            position=position,
            world_size=active.world_size if active else 1,
            metrics=self.metrics,
            extra={},
        )
