"""Splitting a batch over replicas."""

from __future__ import annotations

import pytest

from raytide.core import BatchLimits, Split, split_batch
from raytide.errors import ConfigError

LIMITS = BatchLimits(smallest_batch=20, largest_batch=640, min_local=10, max_local=80)


@pytest.mark.parametrize(
    ("batch", "replicas", "atomic", "accumulation", "actual"),
    [
        (20, 1, 20, 0, 20),  # the smallest batch on one replica
        (21, 1, 11, 1, 22),  # one replica accumulates from the next batch on
        (20, 2, 10, 0, 20),
        (160, 2, 80, 0, 160),  # just fits
        (162, 2, 41, 1, 164),  # does not
        (640, 1, 80, 7, 640),
        (640, 3, 71, 2, 639),  # rounding up would exceed the largest batch
        (640, 7, 45, 1, 630),
    ],
)
def test_split(batch: int, replicas: int, atomic: int, accumulation: int, actual: int) -> None:
    split = split_batch(LIMITS, batch, replicas)
    assert split == Split(replicas, atomic, accumulation)
    assert split.batch == actual


def test_a_single_replica_may_be_made_to_accumulate() -> None:
    assert split_batch(LIMITS, 20, 1, accumulate_alone=True) == Split(1, 10, 1)
    assert split_batch(LIMITS, 20, 2, accumulate_alone=True) == Split(2, 10, 0)


@pytest.mark.parametrize("replicas", [0, -1, 21])
def test_each_replica_needs_a_sample(replicas: int) -> None:
    with pytest.raises(ConfigError, match=f"{replicas} cannot share 20 samples"):
        split_batch(LIMITS, 20, replicas)
