from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raytide.policies.gittins import Gittins, gittins_index
from support.scheduling import Stage, job, play


@pytest.mark.parametrize(
    ("sample", "attained", "expected"),
    [
        ([10.0], 0.0, 1 / 10),
        ([10.0], 4.0, 1 / 6),
        ([10.0], 10.0, 0.0),
        ([1.0, 100.0], 0.0, 1 / (1 + 1)),  # stop after 1: one of two ended, two units were served
        ([1.0, 100.0], 1.0, 1 / 99),
        ([], 0.0, 0.0),
    ],
)
def test_the_index_by_hand(sample, attained, expected):
    assert gittins_index(sample, attained) == pytest.approx(expected)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=30), st.floats(0.0, 1e5))
def test_the_index_is_that_of_the_best_stopping_point(sample, attained):
    sample.sort()
    left = [s - attained for s in sample if s > attained]
    ratios = [sum(r <= d for r in left) / sum(min(r, d) for r in left) for d in left]
    assert gittins_index(sample, attained) == pytest.approx(max(ratios, default=0.0), rel=1e-9)


def test_new_jobs_overtake_one_that_turned_out_long():
    play(
        Stage(Gittins([10.0] * 9 + [10_000.0]), 8),
        [
            (0, [job("long", 8)], {"long": 8}),
            (5, [job("new", 8, at=5)], {"new": 8}),
            (6, ["new"], {"long": 8}),
        ],
    )


def test_where_most_jobs_are_long_the_one_that_runs_is_closest_to_its_end():
    scene = Stage(Gittins([1000.0] * 9), 8)
    scene.at(0, job("old", 8))
    scene.at(100, job("new", 8, at=100))
    assert scene.held() == {"old": 8}


def test_it_learns_from_jobs_that_finish():
    scene = Stage(Gittins(), 8)
    scene.at(0, job("a", 8), job("b", 8))
    assert scene.held() == {"a": 8}, "nothing is known: the order of submission"
    scene.at(1, "a")
    scene.at(1 + 1e6, job("c", 8, at=1 + 1e6))
    assert scene.held() == {"c": 8}, "b has had more than any job needed"
    assert scene.controller.explain("b") == "1 jobs are more likely to finish soon: needs 8 GPUs, 0 of 8 are free"
