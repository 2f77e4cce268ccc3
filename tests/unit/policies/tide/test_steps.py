"""Sharing out by steps of growth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raytide.policies.tide.steps import Steps, by_worth, concave_steps, share_out


def steps(**values: float) -> Steps:
    """Sizes as ``s4=1.5``."""
    return concave_steps(np.array([float(name[1:]) for name in values]), np.array(list(values.values())))


def shared(of: list[Steps], gpus: int, weights: list[float] | None = None, have: list[int] | None = None) -> list[int]:
    left = gpus

    def take(_job: int, more: int) -> bool:
        nonlocal left
        if more > left:
            return False
        left -= more
        return True

    order = by_worth(of, np.array(weights or [1.0] * len(of)))
    return share_out(of, order, have or [0] * len(of), take)


@pytest.mark.parametrize(
    ("values", "gpus", "per_gpu"),
    [
        ({"s1": 1.0, "s2": 1.5}, [1, 1], [1.0, 0.5]),
        ({"s1": 1.0, "s2": 1.2, "s3": 3.0}, [3], [1.0]),  # a dent is stepped over
        ({"s1": 1.0, "s2": 0.8, "s4": 2.0}, [1, 3], [1.0, 1 / 3]),
        ({"s1": 2.0, "s2": 1.0}, [1], [2.0]),  # more can be slower
        ({"s8": 4.0}, [8], [0.5]),  # a gang
        ({"s1": 0.0}, [], []),  # worth nothing
    ],
)
def test_steps_are_the_upper_hull(values: dict[str, float], gpus: list[int], per_gpu: list[float]) -> None:
    found = steps(**values)
    assert found.gpus.tolist() == gpus
    assert found.per_gpu.tolist() == pytest.approx(per_gpu)


@pytest.mark.parametrize(
    ("of", "gpus", "expected"),
    [
        ([{"s1": 1.0, "s2": 1.9}, {"s1": 1.0, "s2": 1.1}], 3, [2, 1]),
        ([{"s1": 1.0, "s4": 3.0}, {"s1": 0.9}], 3, [1, 1]),  # the step to 4 does not fit, and nothing smaller is known
        ([{"s1": 1.0, "s2": 1.1, "s4": 3.0}, {"s1": 0.2}], 3, [2, 1]),  # the best that fits
        ([{"s4": 3.0}, {"s1": 0.5}], 3, [0, 1]),  # a gang that does not fit is passed by
        ([], 3, []),
    ],
)
def test_gpus_go_where_they_are_worth_most(of: list[dict[str, float]], gpus: int, expected: list[int]) -> None:
    assert shared([steps(**values) for values in of], gpus) == expected


def test_weights_count() -> None:
    both = [steps(s1=1.0, s2=1.5), steps(s1=1.0, s2=1.5)]
    assert shared(both, 2, [1.0, 1.0]) == [1, 1]
    assert shared(both, 2, [3.0, 1.0]) == [2, 0]


def test_what_was_given_before_is_kept() -> None:
    both = [steps(s1=1.0, s2=1.5), steps(s1=9.0, s2=18.0)]
    assert shared(both, 1, have=[2, 0]) == [2, 1]


@given(
    st.lists(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=8), max_size=6),
    st.integers(0, 24),
)
def test_never_more_than_there_is_nor_than_a_job_can_use(values: list[list[float]], gpus: int) -> None:
    of = [concave_steps(np.arange(1.0, len(row) + 1), np.array(row)) for row in values]
    found = shared(of, gpus)
    assert sum(found) <= gpus
    assert all(0 <= count <= len(row) for count, row in zip(found, values, strict=True))
