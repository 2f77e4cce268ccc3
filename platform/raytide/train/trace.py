"""A line per applied step and rank: the evidence for "each sample exactly once"."""

from __future__ import annotations

import json
import time
from pathlib import Path

from raytide.elastic.model import Generation, Position


class StepTrace:
    """Appends JSON lines to one file per replica.

    Args:
        folder: Where the files go.
        replica: Names the file.
    """

    def __init__(self, folder: str, replica: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._replica = replica
        self._file = (Path(folder) / f"{replica}.jsonl").open("a", buffering=1)

    def write(self, before: Position, after: Position, generation: Generation, indices: list[int]) -> None:
        """One applied step: from where to where, in which generation, and the samples this rank used."""
        line = {
            "time_s": time.time(),
            "step": before.step,
            "epoch": before.epoch,
            "cursor": before.cursor,
            "cursor_after": after.cursor,
            "generation": generation.number,
            "rank": generation.members.index(self._replica),
            "world_size": generation.world_size,
            "indices": indices,
        }
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Flush and close."""
        self._file.close()
