"""What the step traces of a job prove: which samples each epoch used, and how fast.

A trace (``RunConfig.trace_path``) has a line per applied step and rank, see :mod:`raytide.train.trace`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Step:
    """One committed step of the whole job.

    Attributes:
        first, after: The committed range of the epoch's sample order.
        time_s: When the last rank had applied it.
        indices: Samples its ranks used, as far as they lived to write them down.
        is_whole: Every rank wrote its line.
    """

    number: int
    epoch: int
    first: int
    after: int
    time_s: float
    world_size: int
    indices: tuple[int, ...]
    is_whole: bool

    @property
    def samples(self) -> int:
        """How many samples the step committed."""
        return self.after - self.first


@dataclass(frozen=True)
class EpochSamples:
    """What one epoch used.

    Attributes:
        samples: Committed samples.
        is_exact: They were all of the dataset, each once.
    """

    epoch: int
    samples: int
    is_exact: bool


def read_steps(folder: str | Path) -> list[Step]:
    """The committed steps in a folder of traces, in order.

    A step in flight when a replica died may have been applied by the dead one alone; then the survivors
    did it again in a later generation, and only that one counts.
    """
    lines: dict[int, list[dict[str, Any]]] = {}
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in _lines(path):
            lines.setdefault(line["step"], []).append(line)
    return [_step(number, lines[number]) for number in sorted(lines)]


def check_epochs(steps: Iterable[Step], dataset_size: int) -> list[EpochSamples]:
    """Whether each epoch's steps cover the dataset exactly once.

    The committed ranges must follow each other from 0 to the end without gap or overlap; the recorded
    samples must be different ones, and as many as their ranges say.
    """
    by_epoch: dict[int, list[Step]] = {}
    for step in steps:
        by_epoch.setdefault(step.epoch, []).append(step)
    return [_check_epoch(epoch, by_epoch[epoch], dataset_size) for epoch in sorted(by_epoch)]


def _lines(path: Path) -> list[dict[str, Any]]:
    whole = path.read_text().rpartition("\n")[0]  # a killed replica may leave half a line
    return [json.loads(line) for line in whole.splitlines()]


def _step(number: int, lines: list[dict[str, Any]]) -> Step:
    newest = max(line["generation"] for line in lines)
    ranks = {line["rank"]: line for line in lines if line["generation"] == newest}
    some = next(iter(ranks.values()))
    return Step(
        number=number,
        epoch=some["epoch"],
        first=some["cursor"],
        after=some["cursor_after"],
        time_s=max(line["time_s"] for line in ranks.values()),
        world_size=some["world_size"],
        indices=tuple(index for line in ranks.values() for index in line["indices"]),
        is_whole=len(ranks) == some["world_size"],
    )


def _check_epoch(epoch: int, steps: Sequence[Step], dataset_size: int) -> EpochSamples:
    ends = [0, *(step.after for step in steps)]
    tiles = all(step.first == end for step, end in zip(steps, ends, strict=False)) and ends[-1] == dataset_size
    recorded = [index for step in steps for index in step.indices]
    as_many = all(len(step.indices) == step.samples for step in steps if step.is_whole)
    is_exact = tiles and as_many and len(set(recorded)) == len(recorded)
    return EpochSamples(epoch, sum(step.samples for step in steps), is_exact)
