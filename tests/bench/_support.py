"""What the benchmark scripts share: a cluster of their own, step traces, and one JSON object at the end."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A cluster of its own, never one that happens to run on this machine.
os.environ["RAY_ADDRESS"] = "local"
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")


@dataclass(frozen=True)
class Step:
    """One applied step, as one replica saw it."""

    time_s: float
    step: int
    epoch: int
    cursor: int
    cursor_after: int
    generation: int
    rank: int
    world_size: int
    replica: str
    indices: tuple[int, ...]


def read_trace(folder: str) -> list[Step]:
    """All applied steps of all replicas, by time."""
    steps = []
    for path in Path(folder).glob("*.jsonl"):
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            fields["indices"] = tuple(fields["indices"])
            steps.append(Step(replica=path.stem, **fields))
    return sorted(steps, key=lambda s: s.time_s)


def first_times(steps: list[Step]) -> dict[int, float]:
    """When each step was first applied by anybody."""
    times: dict[int, float] = {}
    for step in steps:
        times.setdefault(step.step, step.time_s)
    return times


def samples_exact(steps: list[Step], length: int) -> bool:
    """Whether the committed steps cover every finished epoch exactly once, and each rank used its own share only."""
    ranges: dict[int, tuple[int, int, int]] = {}
    for s in steps:
        known = ranges.setdefault(s.step, (s.epoch, s.cursor, s.cursor_after))
        if known != (s.epoch, s.cursor, s.cursor_after):
            return False
    position = (0, 0)
    for step in sorted(ranges):
        epoch, start, stop = ranges[step]
        if (epoch, start) not in (position, (position[0] + 1, 0)):
            return False
        if epoch != position[0] and position[1] != length:
            return False
        position = (epoch, stop)
    used: dict[int, list[int]] = {}
    for s in steps:
        used.setdefault(s.epoch, []).extend(s.indices)
    return all(len(indices) == len(set(indices)) for indices in used.values())


def wait_for(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll until ``condition`` holds."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(what)
        time.sleep(0.02)


@contextmanager
def scratch() -> Iterator[str]:
    """A folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="raytide-bench-") as folder:
        yield folder


def median(values: list[float]) -> float:
    """Median; not a number without values."""
    return statistics.median(values) if values else float("nan")


def emit(result: dict[str, Any]) -> None:
    """Print the result as the last line."""
    sys.stdout.flush()
    print(json.dumps({k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in result.items()}))


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def simulation_folder(description: str | None) -> Path | None:
    """Read the command line of a simulation; returns the folder for the tables behind its figures, if one is wanted."""
    return seed_and_folder(description)[1]


def seed_and_folder(description: str | None) -> tuple[int, Path | None]:
    """Read the command line of a script without Ray: the seed of what it draws, and the folder for its tables."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn, where anything is")
    parser.add_argument("--out", type=Path, help="folder for the tables behind the figures")
    given = parser.parse_args()
    folder: Path | None = given.out
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return given.seed, folder


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log(time) over log(size): 1 is linear."""
    xs, ys = [math.log(n) for n in sizes], [math.log(s) for s in seconds]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    products = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return products / sum((x - mean_x) ** 2 for x in xs)
