"""What ranks exchange between steps: exact, of one size, and refused where they meet in different calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from raytide.collective import Group
from raytide.train.frames import FramesParted, start_vote, sum_over, vote_frame
from support.ranks import Ranks, ranks


@pytest.fixture(scope="module")
def world() -> Iterator[Ranks]:
    with ranks() as made:
        yield made


@pytest.mark.parametrize("count", [0, 1, 65, 67, 1000])
def test_sums_of_any_length(world: Ranks, count: int) -> None:
    def work(rank: int, group: Group) -> list[float]:
        return sum_over(group, 7, [float(n + rank) for n in range(count)])

    assert world.run(3, work) == [[3.0 * n + 3.0 for n in range(count)]] * 3


def test_a_sum_that_meets_another_sum(world: Ranks) -> None:
    def work(rank: int, group: Group) -> str:
        try:
            sum_over(group, 7 + rank, [1.0])
        except FramesParted:
            return "parted"
        return "summed"

    assert world.run(2, work) == ["parted"] * 2


def test_sums_of_different_lengths(world: Ranks) -> None:
    """Long or short, they are told apart before a buffer of another size is met."""

    def work(rank: int, group: Group) -> str:
        try:
            sum_over(group, 7, [1.0] * (3 if rank else 300))
        except FramesParted:
            return "parted"
        return "summed"

    assert world.run(2, work) == ["parted"] * 2


def test_a_sum_that_meets_a_vote(world: Ranks) -> None:
    def work(rank: int, group: Group) -> object:
        if rank:
            frame = vote_frame(group, [5, -5])
            start_vote(group, frame).wait()
            return frame[:2].tolist() == [5, -5]
        try:
            return sum_over(group, 7, [1.0])
        except FramesParted:
            return "parted"

    parted, unchanged = world.run(2, work)
    assert parted == "parted"
    assert not unchanged


def test_votes_take_the_maximum(world: Ranks) -> None:
    def work(rank: int, group: Group) -> list[int]:
        frame = vote_frame(group, [rank, -rank, 2**60])
        start_vote(group, frame).wait()
        return [int(n) for n in frame[:4]]

    assert world.run(3, work) == [[2, 0, 2**60, 0]] * 3
