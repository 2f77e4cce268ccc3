"""Random numbers of a sample that do not depend on who loads it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW_32 = 0xFFFFFFFF
_WORD = (1 << 64) - 1


def _mix(word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Finish a splitmix64 step: every input bit changes about half of the output bits."""
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    mixed: npt.NDArray[np.uint64] = word ^ (word >> np.uint64(31))
    return mixed


def sample_keys(seed: int, epoch: int, indices: Sequence[int]) -> list[int]:
    """Return a 64-bit key for every index; equal arguments give equal keys everywhere.

    Computed for the whole batch at once: one hash per sample would cost as much as the seeding.
    """
    word = _mix(np.asarray([seed & _WORD], dtype=np.uint64) + _GOLDEN)
    word = _mix(word + np.asarray([epoch & _WORD], dtype=np.uint64) * _GOLDEN)
    keys = _mix(word + np.asarray(indices, dtype=np.int64).astype(np.uint64) * _GOLDEN)
    return [int(key) for key in keys.tolist()]


def seed_generators(key: int) -> None:
    """Seed the global CPU generators of torch, numpy and Python from one key.

    Not ``torch.manual_seed``: that also seeds every accelerator and costs a hundred times as much.
    """
    torch.default_generator.manual_seed(key)
    np.random.seed(key & _LOW_32)  # noqa: NPY002 - the generator that users' code draws from
    random.seed(key)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Give the global generators back as they were found; wrap it round a batch, not a sample."""
    torch_state = torch.default_generator.get_state()
    numpy_state = np.random.get_state()  # noqa: NPY002 - as above
    python_state = random.getstate()
    try:
        yield
    finally:
        torch.default_generator.set_state(torch_state)
        np.random.set_state(numpy_state)  # noqa: NPY002 - as above
        random.setstate(python_state)
