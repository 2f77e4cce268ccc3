from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raytide.errors import ConfigError
from raytide.train.data.leases import Lease, LeaseTable, LeaseUpdate


def read_some(table, world_size, counts, done=()):
    """Commit a step in which rank r read counts[r] samples and the ranks in ``done`` met the end."""
    updates = []
    for rank, lease in enumerate(table.assignment(world_size)):
        if lease is None:
            updates.append(LeaseUpdate(rank, None, 0, 0, False))
        else:
            updates.append(LeaseUpdate(rank, lease.shard, lease.offset, counts[rank], rank in done))
    return table.commit(updates, world_size)


def shards(table, world_size):
    return [lease.shard if lease else None for lease in table.assignment(world_size)]


def test_a_fresh_table_gives_shards_in_order():
    assert shards(LeaseTable(5), 3) == [0, 1, 2]
    assert shards(LeaseTable(2), 3) == [0, 1, None]


def test_a_rank_keeps_its_shard_when_another_ends():
    table = read_some(LeaseTable(5), 3, [4, 4, 4])
    table = read_some(table, 3, [1, 4, 4], done=(0,))
    assert table.assignment(3) == (Lease(3, 0, 0), Lease(1, 8, 1), Lease(2, 8, 2))


def test_started_shards_come_before_new_ones_after_a_shrink():
    table = read_some(LeaseTable(9), 4, [2, 3, 4, 5])
    assert shards(table, 2) == [0, 1]
    table = read_some(table, 2, [1, 1], done=(1,))
    assert table.assignment(2) == (Lease(0, 3, 0), Lease(2, 4, 1))
    table = read_some(table, 2, [1, 1], done=(0, 1))
    assert shards(table, 2) == [3, 4]


def test_a_newcomer_takes_a_started_shard_first():
    table = read_some(LeaseTable(9), 3, [2, 2, 2])
    table = read_some(table, 1, [2])
    assert shards(table, 4) == [0, 1, 2, 3]
    assert table.assignment(4)[2] == Lease(2, 2, 2)


def test_the_epoch_ends_with_the_last_shard():
    table = read_some(LeaseTable(2), 2, [1, 1], done=(0,))
    assert not table.finished
    assert shards(table, 2) == [None, 1]
    table = read_some(table, 2, [0, 3], done=(1,))
    assert table.finished
    assert shards(table, 3) == [None, None, None]
    again = table.next_epoch()
    assert (again.epoch, again.started, again.finished) == (1, 0, False)


def test_shuffling_depends_on_seed_and_epoch_alone():
    one, two = LeaseTable(20, seed=1, shuffle=True), LeaseTable(20, seed=1, shuffle=True)
    assert shards(one, 20) == shards(two, 20)
    assert sorted(shards(one, 20)) == list(range(20))
    assert shards(one, 20)[:7] == shards(one, 7)
    assert shards(one, 20) != shards(one.next_epoch(), 20)
    assert shards(one, 20) != shards(LeaseTable(20, seed=2, shuffle=True), 20)


def test_the_batch_is_split_over_the_ranks_that_hold_a_shard():
    table = LeaseTable(2)
    assert table.counts(2, 7) == (4, 3)
    assert table.counts(3, 7) == (4, 3, 0)
    assert table.counts(2, 1) == (1, 0)
    table = read_some(table, 2, [1, 1], done=(0,))
    assert table.counts(2, 7) == (0, 7)
    table = read_some(table, 2, [0, 1], done=(1,))
    assert table.counts(2, 7) == (0, 0)


@pytest.mark.parametrize(
    "stale",
    [
        LeaseUpdate(0, 0, 1, 3, False),
        LeaseUpdate(0, 1, 0, 3, False),
        LeaseUpdate(0, None, 0, 0, False),
        LeaseUpdate(1, 0, 0, 3, False),
    ],
)
def test_updates_of_another_step_are_refused(stale):
    with pytest.raises(AssertionError):
        LeaseTable(3).commit([stale], 1)


def test_the_updates_of_all_ranks_are_needed():
    with pytest.raises(AssertionError, match=r"ranks \[0\] for a world of 2"):
        LeaseTable(3).commit([LeaseUpdate(0, 0, 0, 3, False)], 2)


def test_impossible_tables_cannot_be_made():
    with pytest.raises(AssertionError, match="twice"):
        LeaseTable(3, started=2, active=(Lease(0, 1, 0), Lease(0, 2, 1)))
    with pytest.raises(AssertionError, match="1 active of 0"):
        LeaseTable(3, active=(Lease(0, 1, 0),))
    with pytest.raises(ConfigError, match="num_shards"):
        LeaseTable(0)


HISTORY = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=6, max_size=6)),
    max_size=25,
)


def replay(history, num_shards=7):
    table = LeaseTable(num_shards, seed=3, shuffle=True)
    yield table
    for world_size, reads in history:
        done = [rank for rank, (_, is_done) in enumerate(reads) if is_done]
        table = read_some(table, world_size, [count for count, _ in reads], done)
        yield table


@settings(deadline=None)
@given(history=HISTORY)
def test_a_checkpoint_gives_the_table_back(history):
    for table in replay(history):
        assert LeaseTable.from_dict(json.loads(json.dumps(table.to_dict()))) == table


@settings(deadline=None)
@given(history=HISTORY, world_size=st.integers(1, 9))
def test_no_shard_is_held_twice_and_none_is_forgotten(history, world_size):
    for table in replay(history):
        held = [shard for shard in shards(table, world_size) if shard is not None]
        assert len(held) == len(set(held))
        left = len(table.active) + table.num_shards - table.started
        assert len(held) == min(world_size, left)
        assert table.finished == (left == 0)


@settings(deadline=None)
@given(history=HISTORY)
def test_updates_survive_a_sum_over_ranks(history):
    for table, (world_size, reads) in zip(replay(history), history, strict=False):
        updates = [
            LeaseUpdate(rank, lease.shard, lease.offset, *reads[rank])
            if lease
            else LeaseUpdate(rank, None, 0, 0, False)
            for rank, lease in enumerate(table.assignment(world_size))
        ]
        encoded = [table.encode(update, world_size) for update in updates]
        total = [float(sum(column)) for column in zip(*encoded, strict=True)]
        assert table.decode(total, world_size) == tuple(updates)
