"""Sharing out GPUs where they are worth most: concave steps of growth, and one pass over all of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Take = Callable[[int, int], bool]
"""Takes so many GPUs for a job, by its place in the sequence of jobs; False, and nothing taken, if there is no room."""


@dataclass(frozen=True, eq=False)
class Steps:
    """How a job grows from nothing: the upper concave hull of its values.

    Attributes:
        sizes: All sizes in GPUs, ascending.
        values: What each is worth.
        gpus: GPUs of each step of the hull; shape (steps,).
        per_gpu: Worth of one GPU of that step, falling; shape (steps,).
    """

    sizes: Sequence[float]
    values: Sequence[float]
    gpus: Floats
    per_gpu: Floats


def concave_steps(sizes: Floats, values: Floats) -> Steps:
    """Steps of a job whose ``values`` may rise and fall with ``sizes``; nothing is worth nothing."""
    listed = sizes.tolist(), values.tolist()
    corners = [(0.0, 0.0)]
    for size, value in zip(*listed, strict=True):
        if value <= corners[-1][1]:
            continue  # more GPUs for no more
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-1], (size, value)):
            corners.pop()
        corners.append((size, value))
    gpus = [high - low for (low, _), (high, _) in pairwise(corners)]
    per_gpu = [_slope(low, high) for low, high in pairwise(corners)]
    return Steps(*listed, np.array(gpus), np.array(per_gpu))


def _slope(low: tuple[float, float], high: tuple[float, float]) -> float:
    return (high[1] - low[1]) / (high[0] - low[0])


def share_out(steps: Sequence[Steps], order: Iterable[tuple[int, int]], have: list[int], take: Take) -> list[int]:
    """Give GPUs step by step, the most valuable first, to whoever can still take some.

    A job whose next step does not fit gets the best size that does, and nothing more.

    Args:
        steps: Of each job.
        order: See :func:`by_worth`; jobs that are not in it get nothing.
        have: GPUs that each was given before; steps below that are skipped.
        take: Takes GPUs.

    Returns:
        GPUs of each job, what it had included.
    """
    counts = list(have)
    reached = [0] * len(steps)
    closed = [False] * len(steps)
    for job, gpus in order:
        reached[job] += gpus
        more = reached[job] - counts[job]
        if closed[job] or more <= 0:
            continue
        if take(job, more):
            counts[job] = reached[job]
        else:
            closed[job] = True
            counts[job] += next((g for g in _parts(steps[job], counts[job], reached[job]) if take(job, g)), 0)
    return counts


def by_worth(steps: Sequence[Steps], weights: Floats) -> list[tuple[int, int]]:
    """All steps as (job, GPUs), by worth per GPU; equal ones by job.

    Args:
        steps: Of each job.
        weights: What a unit of each job's value counts; shape (jobs,).
    """
    if not steps:
        return []
    owners = np.repeat(np.arange(len(steps)), [len(step.gpus) for step in steps])
    worth = np.concatenate([step.per_gpu for step in steps]) * weights[owners]
    order = np.argsort(-worth, kind="stable")
    gpus = np.concatenate([step.gpus for step in steps]).astype(int)
    return list(zip(owners[order].tolist(), gpus[order].tolist(), strict=True))


def _parts(steps: Steps, have: int, below: int) -> list[int]:
    """Growth that stays below a step that did not fit, the most valuable first."""
    inside = slice(bisect_right(steps.sizes, have), bisect_left(steps.sizes, below))
    if inside.start == inside.stop:
        return []
    mine = float(np.interp(have, steps.sizes, steps.values)) if have else 0.0
    found = [(v, s) for v, s in zip(steps.values[inside], steps.sizes[inside], strict=True) if v > mine]
    return [int(size) - have for _, size in sorted(found, reverse=True)]
