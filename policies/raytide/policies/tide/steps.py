"""Sharing out GPUs where they are worth most: concave steps of growth, and one pass over all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Take = Callable[[int, int], bool]
"""Takes so many GPUs for a job, by its place in the sequence of jobs; False, and nothing taken, if there is no room."""


@dataclass(frozen=True, eq=False)
class Steps:
    """How a job grows from nothing: the upper concave hull of its values.

    Attributes:
        sizes: All sizes in GPUs, ascending; shape (sizes,).
        values: What each is worth; shape (sizes,).
        gpus: GPUs of each step of the hull; shape (steps,).
        per_gpu: Worth of one GPU of that step, falling; shape (steps,).
    """

    sizes: Floats
    values: Floats
    gpus: Floats
    per_gpu: Floats


def concave_steps(sizes: Floats, values: Floats) -> Steps:
    """Steps of a job whose ``values`` may rise and fall with ``sizes``; nothing is worth nothing."""
    corners = [(0.0, 0.0)]
    for size, value in zip(sizes.tolist(), values.tolist(), strict=True):
        if value <= corners[-1][1]:
            continue  # more GPUs for no more
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-1], (size, value)):
            corners.pop()
        corners.append((size, value))
    gpus = np.diff([size for size, _ in corners])
    return Steps(sizes, values, gpus, np.diff([value for _, value in corners]) / gpus)


def _slope(low: tuple[float, float], high: tuple[float, float]) -> float:
    return (high[1] - low[1]) / (high[0] - low[0])


def share_out(steps: Sequence[Steps], weights: Floats, have: list[int], take: Take) -> list[int]:
    """Give GPUs step by step, the most valuable first, to whoever can still take some.

    A job whose next step does not fit gets the best size that does, and nothing more.

    Args:
        steps: Of each job.
        weights: What a unit of each job's value counts; shape (jobs,).
        have: GPUs that each was given before; steps below that are skipped.
        take: Takes GPUs.

    Returns:
        GPUs of each job, what it had included.
    """
    counts = list(have)
    reached = [0] * len(steps)
    closed = [False] * len(steps)
    for job, gpus in _ordered(steps, weights):
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


def _ordered(steps: Sequence[Steps], weights: Floats) -> list[tuple[int, int]]:
    """All steps as (job, GPUs), by worth per GPU; equal ones by job."""
    if not steps:
        return []
    owners = np.repeat(np.arange(len(steps)), [len(step.gpus) for step in steps])
    worth = np.concatenate([step.per_gpu for step in steps]) * weights[owners]
    order = np.argsort(-worth, kind="stable")
    gpus = np.concatenate([step.gpus for step in steps]).astype(int)
    return list(zip(owners[order].tolist(), gpus[order].tolist(), strict=True))


def _parts(steps: Steps, have: int, below: int) -> list[int]:
    """Growth that stays below a step that did not fit, the most valuable first."""
    inside = (steps.sizes > have) & (steps.sizes < below)
    mine = float(np.interp(have, steps.sizes, steps.values)) if have else 0.0
    found = [
        (v, s) for v, s in zip(steps.values[inside].tolist(), steps.sizes[inside].tolist(), strict=True) if v > mine
    ]
    return [int(size) - have for _, size in sorted(found, reverse=True)]
