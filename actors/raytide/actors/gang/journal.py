"""A rigid job's state on disk, replaced as a whole whenever it changed."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from typing import Any

import fsspec
from pydantic import TypeAdapter

from raytide.actors.gang.state import GangState
from raytide.actors.views import Event

KEPT_EVENTS = 200


@cache
def _adapter() -> TypeAdapter[GangState]:
    return TypeAdapter(GangState)


def dumps(state: GangState) -> str:
    """The state as JSON text."""
    return _adapter().dump_json(state).decode()


def loads(text: str) -> GangState:
    """The state that :func:`dumps` wrote; raises ``pydantic.ValidationError`` for anything else."""
    return _adapter().validate_json(text)


class GangJournal:
    """The journal of one run. It stays when the job has ended, so that a restarted master knows the end.

    Args:
        root: Folder (any fsspec URL) of the job.
        run_id: Of the run; the journal of another one is ignored and overwritten.
    """

    def __init__(self, root: str, run_id: str) -> None:
        self._run_id = run_id
        self._files, self._path = fsspec.core.url_to_fs(f"{root.rstrip('/')}/journal.json")
        self._files.makedirs(self._files._parent(self._path), exist_ok=True)

    def save(self, state: GangState, events: list[Event]) -> None:
        """Write everything; a reader sees the old or the new one, never a part."""
        kept = [asdict(event) for event in events[-KEPT_EVENTS:]]
        whole: dict[str, Any] = {"run_id": self._run_id, "state": json.loads(dumps(state)), "events": kept}
        part = f"{self._path}.part"
        with self._files.open(part, "w") as file:
            file.write(json.dumps(whole, default=str))
        self._files.mv(part, self._path)

    def load(self) -> tuple[GangState, list[Event]] | None:
        """What the last master of this run wrote; None for a new run."""
        if not self._files.exists(self._path):
            return None
        with self._files.open(self._path, "r") as file:
            whole = json.loads(file.read())
        if whole["run_id"] != self._run_id:
            return None
        return loads(json.dumps(whole["state"])), [Event(**event) for event in whole["events"]]
