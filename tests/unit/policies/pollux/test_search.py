"""What the search may not break, whatever it is given."""

from __future__ import annotations

import numpy as np
import pytest

from raytide.core.job import Job
from raytide.policies.pollux.problem import Problem
from raytide.policies.pollux.search import FLOOR, Search, repaired, score, within_limits
from support.scheduling import job


def problem(base: list[list[int]], capacity: list[int], *, most: int = 4, kept: float = 0.5, limits=()) -> Problem:
    """Elastic jobs whose worth is their number of GPUs, halved across nodes."""
    jobs = [Job(job(f"j{number}", 1, to=most), number) for number in range(len(base))]
    worth = np.zeros((len(jobs), 2, most + 1))
    worth[:, 0], worth[:, 1, 2:] = np.arange(most + 1), np.arange(2, most + 1) / 2
    ones = np.ones(len(jobs), dtype=np.int64)
    return Problem(
        jobs=jobs,
        nodes=[f"n{number}" for number in range(len(capacity))],
        capacity=np.array(capacity),
        crowded=np.zeros(len(capacity), dtype=np.bool_),
        base=np.array(base),
        least=ones,
        most=most * ones,
        step=ones,
        worth=worth,
        kept=np.full(len(jobs), kept),
        limits=limits,
    )


def test_worth_is_a_harmonic_mean_and_moves_count_less() -> None:
    given = problem([[1, 0], [0, 2]], [4, 4])
    same, moved, without = score(given, np.array([[[1, 0], [0, 2]], [[3, 0], [0, 2]], [[0, 0], [0, 2]]]))
    assert same == pytest.approx(2 / (1 / (1 + FLOOR) + 1 / (2 + FLOOR)))
    assert moved == pytest.approx(2 / (1 / (1.5 + FLOOR) + 1 / (2 + FLOOR)))
    assert without == pytest.approx(2 / (1 / FLOOR + 1 / (2 + FLOOR)))


def test_repair_takes_from_later_jobs() -> None:
    given = problem([[0, 0]] * 3, [4, 4])
    assert repaired(given, np.array([[[3, 0], [3, 0], [0, 3]]])).tolist() == [[[3, 0], [1, 0], [0, 3]]]


def test_repair_leaves_a_node_to_one_job_across_nodes() -> None:
    given = problem([[0, 0]] * 3, [4, 4])
    assert repaired(given, np.array([[[1, 1], [1, 1], [1, 0]]])).tolist() == [[[1, 1], [0, 0], [1, 0]]]


def test_sizes_that_a_job_cannot_have_are_nothing() -> None:
    given = problem([[0, 0]], [8, 8])
    assert repaired(given, np.array([[[5, 0]], [[4, 0]], [[4, 1]]])).tolist() == [[[0, 0]], [[4, 0]], [[0, 0]]]


def test_later_jobs_of_a_tenant_make_way() -> None:
    limits = [(np.array([True, False, True]), 3)]
    given = problem([[0]] * 3, [9], limits=limits)
    assert within_limits(given, np.array([[[2], [4], [2]]])).tolist() == [[[2], [4], [0]]]


def test_what_is_found_is_feasible_and_good() -> None:
    rng = np.random.default_rng(0)
    search = Search(rng, candidates=30, generations=20)
    given = problem([[0] * 4] * 8, [4] * 4)
    for _ in range(3):
        found = search.best(given)
        across = (found > 0) & ((found > 0).sum(axis=1) > 1)[:, None]
        assert (found.sum(axis=0) <= given.capacity).all()
        assert (across.sum(axis=0) <= 1).all()
    assert found.sum(axis=1).tolist() == [2] * 8


def test_a_search_begins_with_what_was_found_before() -> None:
    found = Search(np.random.default_rng(0), candidates=30, generations=20)
    before = found.best(problem([[0] * 4] * 8, [4] * 4))
    after = problem(before[:-1].tolist(), [4] * 4)
    assert (found.best(after) >= before[:-1]).all(), "who stays keeps its slots"


def test_large_clusters_have_fewer_candidates() -> None:
    search = Search(np.random.default_rng(0), candidates=100, generations=1)
    assert search.best(problem([[0] * 1000] * 500, [4] * 1000)).shape == (500, 1000)
