from __future__ import annotations

import random

import numpy as np
import torch

from raytide.train.seeding import seed_step


def draw() -> tuple[float, float, float]:
    return torch.rand(1, dtype=torch.float64).item(), float(np.random.rand()), random.random()  # noqa: NPY002 - global


def drawn(*arguments: int) -> tuple[float, float, float]:
    seed_step(*arguments)
    return draw()


def test_a_repeated_step_draws_the_same_and_others_do_not():
    first = drawn(1, 2, 3)
    assert drawn(1, 2, 3) == first
    for other in [(2, 2, 3), (1, 3, 3), (1, 2, 4), (12, 3, 3), (1, 23, 3)]:
        assert all(a != b for a, b in zip(drawn(*other), first, strict=True)), other


def test_seeding_step_after_step_leaves_nothing_behind():
    """``torch.manual_seed`` queued a call with its stack for each absent accelerator, for ever."""
    before = len(torch.cuda._queued_calls)
    for step in range(20):
        seed_step(0, step, 0)
    assert len(torch.cuda._queued_calls) == before
