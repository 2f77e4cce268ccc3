"""A rigid job's state on disk, replaced as a whole whenever it changed."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache

from pydantic import TypeAdapter

from raytide.actors.gang.state import GangState
from raytide.actors.run_file import RunFile
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
        self._file = RunFile(root, run_id)

    def save(self, state: GangState, events: list[Event]) -> None:
        """Write everything."""
        kept = [asdict(event) for event in events[-KEPT_EVENTS:]]
        self._file.save({"state": json.loads(dumps(state)), "events": kept})

    def load(self) -> tuple[GangState, list[Event]] | None:
        """What the last master of this run wrote; None for a new run."""
        whole = self._file.load()
        if whole is None:
            return None
        return loads(json.dumps(whole["state"])), [Event(**event) for event in whole["events"]]
