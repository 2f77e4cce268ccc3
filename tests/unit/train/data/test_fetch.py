from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import Subset, TensorDataset, default_collate

from raytide.train.data.fetch import AbandonedError, Fetcher
from raytide.train.data.options import LoaderOptions
from raytide.train.data.sample_rng import generators_kept, sample_keys, seed_generators

GOLDEN_00 = [3746585686858627171, 6235967106033911276]
GOLDEN_BIG = [17592720524696708913]


def draw():
    """One number of each global generator."""
    return torch.rand(1, dtype=torch.float64).item(), np.random.rand(), random.random()  # noqa: NPY002 - as users do


class Augmented:
    """Samples whose content is nothing but random numbers."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, *draw()], dtype=torch.float64)


class Batched(Augmented):
    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        self.calls.append(indices)
        return [self[index] for index in indices]


class LoudTable(TensorDataset):
    """Not a plain table: its samples are not its rows."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(-column for column in super().__getitem__(index))


def fetcher(dataset, **options):
    return Fetcher(dataset, LoaderOptions(**options))


@settings(deadline=None)
@given(cut=st.integers(0, 8), indices=st.permutations(range(8)))
def test_augmentation_does_not_depend_on_the_split(cut, indices):
    load = fetcher(Augmented(), seed=3)
    whole = load.fetch(5, indices)
    parts = [load.fetch(5, part) for part in (indices[:cut], indices[cut:]) if part]
    assert torch.equal(torch.cat(parts), whole)


def test_augmentation_depends_on_seed_epoch_and_index():
    rows = [
        tuple(fetcher(Augmented(), seed=seed).fetch(epoch, [index])[0, 1:].tolist())
        for seed in (0, 1)
        for epoch in (0, 1)
        for index in (0, 1)
    ]
    for generator in zip(*rows, strict=True):
        assert len(set(generator)) == 8


def test_without_sample_rng_the_generators_just_run_on():
    load = fetcher(Augmented(), sample_rng=False)
    seed_generators(11)
    expected = draw()
    seed_generators(11)
    assert tuple(load.fetch(0, [4])[0, 1:].tolist()) == expected


def test_generators_are_given_back_even_after_an_error():
    seed_generators(5)
    expected = [draw(), draw()]
    seed_generators(5)
    assert draw() == expected[0]
    with pytest.raises(KeyError), generators_kept():
        fetcher(Augmented(), collate_fn=lambda samples: {}["missing"]).fetch(0, [1])
    assert draw() == expected[1]


def test_sample_keys_are_the_recorded_ones():
    # Augmentation must not change when a job resumes with another release.
    assert sample_keys(0, 0, [0, 1]) == GOLDEN_00
    assert sample_keys(2**63, 7, [123456789]) == GOLDEN_BIG


@settings(deadline=None)
@given(seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 10**6))
def test_sample_keys_do_not_collide_in_an_epoch(seed, epoch):
    assert len(set(sample_keys(seed, epoch, range(2000)))) == 2000


def test_a_table_is_indexed_once_per_batch():
    table = TensorDataset(torch.arange(20).reshape(10, 2), torch.arange(10.0))
    expected = default_collate([table[index] for index in (3, 1, 3)])
    seed_generators(1)
    before = torch.get_rng_state()
    batch = fetcher(table).fetch(0, (3, 1, 3))
    assert type(batch) is type(expected)
    assert all(torch.equal(one, two) for one, two in zip(batch, expected, strict=True))
    assert torch.equal(torch.get_rng_state(), before)
    assert not fetcher(table).is_random


def test_a_table_with_other_samples_or_collation_takes_the_slow_path():
    columns = torch.arange(10.0)
    assert fetcher(LoudTable(columns)).fetch(0, [2, 3])[0].tolist() == [-2.0, -3.0]
    collated = fetcher(TensorDataset(columns), collate_fn=lambda samples: len(samples)).fetch(0, [2, 3])
    assert collated == 2


def test_a_batch_goes_to_getitems_at_once():
    dataset = Batched()
    fetcher(dataset).fetch(0, (7, 8, 9))
    assert dataset.calls == [[7, 8, 9]]


def test_getitems_can_be_left_aside_for_exact_augmentation():
    dataset = Batched()
    one = fetcher(dataset, batch_getitems=False).fetch(0, (7, 8, 9))
    assert dataset.calls == []
    assert torch.equal(one, fetcher(Augmented()).fetch(0, (7, 8, 9)))


def test_subsets_are_looked_through():
    inner = Subset(Augmented(), [50, 51, 52, 53])
    batch = fetcher(Subset(inner, [3, 2])).fetch(0, (0, 1))
    assert batch[:, 0].tolist() == [53.0, 52.0]
    # keyed by the index in the epoch's order, and sample by sample
    assert torch.equal(batch[:, 1:], fetcher(Augmented()).fetch(0, (0, 1))[:, 1:])
    assert torch.equal(batch[1:], fetcher(Subset(inner, [3, 2])).fetch(0, (1,)))


def test_a_subset_of_a_table_stays_fast():
    load = fetcher(Subset(TensorDataset(torch.arange(10)), [9, 8, 7]))
    assert not load.is_random
    assert load.fetch(0, (0, 2))[0].tolist() == [9, 7]


def test_an_abandoned_batch_stops_at_the_next_sample():
    seen = []

    class Counting(Augmented):
        def __getitem__(self, index: int) -> int:
            seen.append(index)
            return index

    with pytest.raises(AbandonedError):
        fetcher(Counting()).fetch(0, (5, 6, 7, 8), abandoned=lambda: len(seen) == 2)
    assert seen == [5, 6]
