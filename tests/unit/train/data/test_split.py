from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raytide.errors import ConfigError
from raytide.train.data.order import epoch_order, take
from raytide.train.data.split import (
    LocalBatch,
    Share,
    check_equal_shares,
    global_batch,
    local_batches,
    micro_batches,
    shares,
)


def step_of_all(order, world_size, **step):
    """What every rank loads for one step."""
    return [local_batches(order, rank=rank, world_size=world_size, **step) for rank in range(world_size)]


def real(batches):
    return [batch for rank in batches for batch in rank if not batch.is_dummy]


@settings(deadline=None)
@given(cursor=st.integers(0, 10**6), count=st.integers(0, 1000), world_size=st.integers(1, 64))
def test_shares_are_contiguous_and_nearly_equal(cursor, count, world_size):
    parts = shares(cursor, count, world_size)
    assert len(parts) == world_size
    assert parts[0].start == cursor
    assert parts[-1].stop == cursor + count
    assert all(left.stop == right.start for left, right in pairwise(parts))
    sizes = [len(part) for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(size=st.integers(0, 500), limit=st.none() | st.integers(1, 64))
def test_micro_batches_are_as_few_and_as_equal_as_the_limit_allows(size, limit):
    parts = micro_batches(Share(7, 7 + size), limit)
    assert sum(len(part) for part in parts) == size
    assert parts[0].start == 7
    assert len(parts) == (1 if not limit or not size else -(-size // limit))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert limit is None or max(sizes) <= limit


@settings(deadline=None)
@given(
    length=st.integers(1, 300),
    size=st.integers(1, 70),
    limit=st.none() | st.integers(1, 9),
    drop_last=st.booleans(),
    data=st.data(),
)
def test_an_epoch_uses_every_sample_once_under_any_history(length, size, limit, drop_last, data):
    """World sizes change from step to step; a failed step is repeated, perhaps at another size."""
    order = epoch_order(length, seed=5, epoch=2, shuffle=True)
    cursor, step, used = 0, 40, []
    while True:
        world_size = data.draw(st.integers(1, 9))
        batches = step_of_all(
            order,
            world_size,
            epoch=2,
            step=step,
            cursor=cursor,
            global_batch_size=size,
            max_local_batch=limit,
            drop_last=drop_last,
        )
        if not batches[0]:
            assert all(rank == () for rank in batches)
            break
        assert all(len(rank) == rank[0].num_micro for rank in batches)
        assert abs(sum(batch.weight for rank in batches for batch in rank) - 1.0) < 1e-9
        if data.draw(st.booleans()):  # the step failed: nothing was committed
            continue
        used += [index for batch in real(batches) for index in batch.indices]
        cursor, step = global_batch(length, cursor, size, drop_last).stop, step + 1
    expected = length - (length % size if drop_last else 0)
    assert tuple(used) == take(order, 0, expected)
    assert step - 40 == (length // size if drop_last else -(-length // size))


@settings(deadline=None)
@given(length=st.integers(1, 50), world_size=st.integers(1, 12), limit=st.none() | st.integers(1, 5))
def test_weights_are_the_parts_of_the_global_batch(length, world_size, limit):
    step = {
        "epoch": 0,
        "step": 0,
        "cursor": 0,
        "global_batch_size": 64,
        "max_local_batch": limit,
        "drop_last": False,
    }
    for batch in real(step_of_all(range(length), world_size, **step)):
        assert batch.weight == len(batch.indices) / length


def test_ranks_without_samples_run_a_dummy():
    step = {
        "epoch": 1,
        "step": 9,
        "cursor": 4,
        "global_batch_size": 8,
        "max_local_batch": 1,
        "drop_last": False,
    }
    batches = step_of_all([9, 8, 7, 6, 5, 4], 4, **step)
    assert [rank[0].indices for rank in batches] == [(5,), (4,), (5,), (5,)]
    assert [rank[0].weight for rank in batches] == [0.5, 0.5, 0.0, 0.0]
    assert batches[3] == (LocalBatch(1, 9, 0, 1, (5,), 0.0),)
    assert [rank[0].is_dummy for rank in batches] == [False, False, True, True]


def test_one_replica_does_in_micro_batches_what_eight_did():
    step = {
        "epoch": 0,
        "step": 0,
        "cursor": 0,
        "global_batch_size": 64,
        "max_local_batch": 8,
        "drop_last": False,
    }
    (alone,) = step_of_all(range(64), 1, **step)
    eight = step_of_all(range(64), 8, **step)
    assert [batch.indices for batch in alone] == [rank[0].indices for rank in eight]
    assert [batch.is_last_micro for batch in alone] == [False] * 7 + [True]
    assert all(batch.weight == 1 / 8 for batch in alone)


@pytest.mark.parametrize(
    ("length", "size", "drop_last", "steps"),
    [
        (10, 5, False, 2),
        (11, 5, False, 3),
        (11, 5, True, 2),
        (3, 8, False, 1),
        (3, 8, True, 0),
        (0, 4, False, 0),
    ],
)
def test_an_epoch_has_so_many_steps(length, size, drop_last, steps):
    cursor, walked = 0, 0
    while (whole := global_batch(length, cursor, size, drop_last)) is not None:
        cursor, walked = whole.stop, walked + 1
    assert walked == steps


def test_a_step_needs_a_rank():
    with pytest.raises(AssertionError, match="world_size=0"):
        shares(0, 4, 0)


@pytest.mark.parametrize("edges", [(-1, 2), (3, 2)])
def test_impossible_shares_cannot_be_made(edges):
    with pytest.raises(AssertionError, match="no share"):
        Share(*edges)


def test_equal_shares_need_a_multiple_of_the_world_size():
    check_equal_shares(12, 4)
    with pytest.raises(ConfigError, match=r"cannot be split evenly over 5.* 10 or 15"):
        check_equal_shares(12, 5)
    with pytest.raises(ConfigError, match=r"without samples.* at least 16"):
        check_equal_shares(12, 16)
