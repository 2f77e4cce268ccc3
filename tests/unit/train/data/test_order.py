from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raytide.errors import ConfigError
from raytide.train.data.order import epoch_order, take

GOLDEN_0_0 = (11, 3, 13, 2, 15, 1, 8, 6, 0, 7, 14, 4, 10, 12, 5, 9)
GOLDEN_7_3 = (13, 11, 2, 12, 10, 4, 7, 3, 5, 1, 15, 14, 8, 9, 0, 6)


@settings(deadline=None)
@given(length=st.integers(0, 500), seed=st.integers(0, 2**63), epoch=st.integers(0, 1000))
def test_every_index_occurs_once(length, seed, epoch):
    order = epoch_order(length, seed=seed, epoch=epoch, shuffle=True)
    assert sorted(take(order, 0, length)) == list(range(length))


@settings(deadline=None)
@given(length=st.integers(0, 200), seed=st.integers(0, 2**40), epoch=st.integers(0, 50))
def test_equal_arguments_give_the_equal_order(length, seed, epoch):
    one = epoch_order(length, seed=seed, epoch=epoch, shuffle=True)
    two = epoch_order(length, seed=seed, epoch=epoch, shuffle=True)
    assert np.array_equal(one, two)


def test_seed_and_epoch_are_not_interchangeable():
    orders = {
        take(epoch_order(50, seed=seed, epoch=epoch, shuffle=True), 0, 50)
        for seed, epoch in itertools.product(range(8), repeat=2)
    }
    assert len(orders) == 64


def test_the_order_is_the_recorded_one():
    # A job resumes from its checkpoint in this order: it may never change, with no release of anything.
    assert take(epoch_order(16, seed=0, epoch=0, shuffle=True), 0, 16) == GOLDEN_0_0
    assert take(epoch_order(16, seed=7, epoch=3, shuffle=True), 0, 16) == GOLDEN_7_3


def test_without_shuffle_the_order_takes_no_memory():
    order = epoch_order(10**12, seed=1, epoch=5, shuffle=False)
    assert order == range(10**12)
    assert take(order, 10**11, 10**11 + 2) == (10**11, 10**11 + 1)


def test_a_shuffled_order_cannot_be_changed_by_accident():
    order = epoch_order(4, seed=0, epoch=0, shuffle=True)
    with pytest.raises(ValueError, match="read-only"):
        order[0] = 3


def test_positions_are_spread_evenly_over_epochs():
    first = [int(epoch_order(10, seed=3, epoch=epoch, shuffle=True)[0]) for epoch in range(2000)]
    counts = np.bincount(first, minlength=10)
    assert counts.min() > 140
    assert counts.max() < 260


def test_taken_indices_are_plain_integers():
    assert {type(index) for index in take(epoch_order(9, seed=0, epoch=0, shuffle=True), 2, 5)} == {int}


@pytest.mark.parametrize("bad", ["length", "seed", "epoch"])
def test_negative_arguments_are_refused(bad):
    arguments = {"length": 4, "seed": 0, "epoch": 0, bad: -1}
    with pytest.raises(ConfigError, match=f"{bad}: -1 is negative"):
        epoch_order(**arguments, shuffle=True)
