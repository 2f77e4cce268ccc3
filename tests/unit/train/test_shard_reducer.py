"""Deterministic mode: the sum of the shards' gradients has the same bits at any world size."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from raytide.collective import Group
from raytide.train.data import shares
from raytide.train.gradients import MicroBatch
from raytide.train.shard_reducer import ShardReducer, tree_sum
from support.gradients import Branches, Events, assert_same, grads
from support.plain_loops import drawn, samples
from support.ranks import Ranks, ranks

X, Y = samples(12).tensors


@pytest.fixture(scope="module")
def world() -> Iterator[Ranks]:
    with ranks() as made:
        yield made


@pytest.mark.parametrize("num_shards", [1, 3, 4, 7])
def test_shards_sum_to_the_same_bits_at_any_size(world: Ranks, num_shards: int) -> None:
    model = drawn(Branches()).float()
    x, y = X.float(), Y.float()
    cuts = [s for s in shares(0, 12, num_shards) if len(s)]

    def work(rank: int, group: Group) -> list[Tensor | None]:
        mine, reducer = copy.deepcopy(model), ShardReducer(Events())
        reducer.add(mine)
        run = shares(0, len(cuts), group.world_size)[rank]
        for step in range(2):
            mine.zero_grad()
            for number in range(run.start, run.stop):
                cut = cuts[number]
                micro = MicroBatch(len(cut) / 12, number == run.start, number == run.stop - 1, True, number, len(cuts))
                reducer.begin(micro, group, step)
                ((mine(x[cut.start : cut.stop]) - y[cut.start : cut.stop]) ** 2).mean().backward()
            if not len(run):
                reducer.begin(MicroBatch(0.0, True, True, True, len(cuts), len(cuts)), group, step)
                ((mine(x[:1]) - y[:1]) ** 2).mean().backward()
        return grads([mine])

    results = [got for size in (1, 2, 3, 4) for got in world.run(size, work)]
    want = copy.deepcopy(model)
    ((want(x) - y) ** 2).mean().backward()
    assert_same(results[0], grads([want]), 1e-5)
    for got in results[1:]:
        for a, b in zip(got, results[0], strict=True):
            assert (a is None and b is None) or torch.equal(a, b)


def test_tree_sum_adds_pairs() -> None:
    rows = [torch.tensor([float(n)]) for n in range(5)]
    assert tree_sum(rows).item() == 10.0
