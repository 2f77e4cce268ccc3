"""Checkpoints written beside training, by rank 0."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from raytide.elastic.messages import FromReplica, Saved, SaveFailed
from raytide.elastic.model import Cost, Position
from raytide.errors import RaytideError
from raytide.train.captured import Captured
from raytide.train.checkpoint import CheckpointMeta, CheckpointStore


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

    def save(self, state: Captured, position: Position, meta: CheckpointMeta, request: str) -> None:
        """Copy ``state`` and write it in the background; one at a time, a second one waits for the first."""
        started_s = time.perf_counter()
        copy = state.cloned("cpu")
        pause_s = time.perf_counter() - started_s
        self.saved_s = time.monotonic()
        self._writing = self._thread.submit(self._write, copy, position, meta, request, pause_s)

    def _write(
        self, state: Captured, position: Position, meta: CheckpointMeta, request: str, pause_s: float
    ) -> None:
        try:
            path = self.write_now(state, meta)
        except RaytideError as error:
            self._send(SaveFailed(request, str(error)))
        else:
            self._send(Saved(request, path, position, Cost(pause_s, 0.0, state.size_bytes)))

    def write_now(self, state: Captured, meta: CheckpointMeta) -> str:
        """Write ``state`` before returning; returns the path.

        Raises:
            CheckpointError: It could not be written.
        """
        if self._store is None:
            raise RaytideError("there is nowhere to save to: set RunConfig.storage_path")
        return self._store.write(state, meta).path

    def drain(self) -> None:
        """Wait for what is being written."""
        if self._writing is not None:
            self._writing.result()
        self._thread.shutdown(wait=True)
