"""What a master keeps of its run on disk, as JSON, replaced as a whole whenever it changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import fsspec


class RunFile:
    """A file of one run.

    Args:
        root: Folder (any fsspec URL) of the job.
        run_id: Of the run; what another one wrote is ignored and overwritten.
    """

    def __init__(self, root: str, run_id: str) -> None:
        self._run_id = run_id
        self._files, self._path = fsspec.core.url_to_fs(f"{root.rstrip('/')}/journal.json")
        self._files.makedirs(self._files._parent(self._path), exist_ok=True)

    def save(self, content: Mapping[str, Any]) -> None:
        """Write everything; a reader sees the old or the new one, never a part."""
        part = f"{self._path}.part"
        with self._files.open(part, "w") as file:
            file.write(json.dumps({"run_id": self._run_id, **content}, default=str))
        self._files.mv(part, self._path)

    def load(self) -> dict[str, Any] | None:
        """What the last master of this run wrote; None for a new run."""
        if not self._files.exists(self._path):
            return None
        with self._files.open(self._path, "r") as file:
            content: dict[str, Any] = json.loads(file.read())
        return content if content["run_id"] == self._run_id else None

    def remove(self) -> None:
        """Nobody needs it any more."""
        if self._files.exists(self._path):
            self._files.rm(self._path)
