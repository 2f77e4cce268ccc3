from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raytide.errors import ConfigError, StateMismatch
from raytide.train.data.errors import SampleError
from raytide.train.data.leases import LeaseTable
from raytide.train.data.streams import ShardedStream, StreamReader


class Shards:
    """Shards of given lengths; counts how often each is opened."""

    def __init__(self, lengths) -> None:
        self.lengths = lengths
        self.opened = []
        self.open_now = 0

    def open(self, name, offset):
        self.opened.append((name, offset))
        return self.samples(int(name), offset)

    def samples(self, shard, offset):
        self.open_now += 1
        try:
            for number in range(offset, self.lengths[shard]):
                yield shard, number
        finally:
            self.open_now -= 1

    def stream(self):
        return ShardedStream([str(shard) for shard in range(len(self.lengths))], self.open)


def run_step(table, readers, world_size, batch):
    counts = table.counts(world_size, batch)
    reads = [readers[rank].read(table, rank, world_size, counts[rank]) for rank in range(world_size)]
    return [sample for samples, _ in reads for sample in samples], [update for _, update in reads]


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=9),
    batch=st.integers(1, 20),
    shuffle=st.booleans(),
    data=st.data(),
)
def test_every_sample_is_used_once_under_any_resizes_and_crashes(lengths, batch, shuffle, data):
    shards = Shards(lengths)
    stream = shards.stream()
    readers = [StreamReader(stream) for _ in range(6)]
    table = stream.table(seed=4, shuffle=shuffle)
    for epoch in range(2):
        used = []
        while not table.finished:
            world_size = data.draw(st.integers(1, 6))
            samples, updates = run_step(table, readers, world_size, batch)
            event = data.draw(st.sampled_from(["commit", "commit", "abort", "crash", "resume"]))
            if event == "crash":  # a process is replaced: its reader is new, the step repeated
                readers[data.draw(st.integers(0, 5))] = StreamReader(stream)
            elif event == "resume":
                table = LeaseTable.from_dict(table.to_dict())
            elif event == "commit":
                table = table.commit(updates, world_size)
                used += samples
        assert sorted(used) == [(s, n) for s, length in enumerate(lengths) for n in range(length)]
        assert table.epoch == epoch
        table = table.next_epoch()


def test_a_shard_stays_open_while_its_holder_reads_on():
    shards = Shards([10, 10])
    reader, table = StreamReader(shards.stream()), shards.stream().table(seed=0)
    for _ in range(3):
        _, update = reader.read(table, 0, 1, 3)
        table = table.commit([update], 1)
    assert shards.opened == [("0", 0)]


def test_a_repeated_step_opens_the_shard_again():
    shards = Shards([10])
    reader, table = StreamReader(shards.stream()), shards.stream().table(seed=0)
    first, _ = reader.read(table, 0, 1, 3)
    again, update = reader.read(table, 0, 1, 3)
    assert first == again == [(0, 0), (0, 1), (0, 2)]
    assert shards.opened == [("0", 0), ("0", 0)]
    assert (update.start, update.count, update.done) == (0, 3, False)


def test_the_end_is_known_with_the_last_sample():
    shards = Shards([6])
    reader, table = StreamReader(shards.stream()), shards.stream().table(seed=0)
    _, update = reader.read(table, 0, 1, 3)
    assert not update.done
    samples, update = reader.read(table.commit([update], 1), 0, 1, 3)
    assert samples == [(0, 3), (0, 4), (0, 5)]
    assert update.done


def test_a_short_read_at_the_end_of_a_shard():
    shards = Shards([2, 5])
    reader, table = StreamReader(shards.stream()), shards.stream().table(seed=0)
    samples, update = reader.read(table, 0, 1, 4)
    assert samples == [(0, 0), (0, 1)]
    table = table.commit([update], 1)
    samples, _ = reader.read(table, 0, 1, 4)
    assert samples == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_a_rank_without_a_shard_reads_nothing():
    shards = Shards([4])
    samples, update = StreamReader(shards.stream()).read(shards.stream().table(seed=0), 1, 2, 4)
    assert samples == []
    assert (update.shard, update.count, update.done) == (None, 0, False)
    assert shards.opened == []


def test_an_empty_shard_ends_without_ending_the_epoch():
    shards = Shards([0, 3])
    reader, table = StreamReader(shards.stream()), shards.stream().table(seed=0)
    samples, update = reader.read(table, 0, 1, 4)
    assert samples == []
    assert update.done
    assert not table.commit([update], 1).finished


def test_a_reader_closes_what_it_leaves():
    shards = Shards([10, 10])
    reader, table = StreamReader(shards.stream()), shards.stream().table(seed=0)
    reader.read(table, 0, 2, 3)
    reader.read(table, 1, 2, 3)
    assert shards.open_now == 1
    reader.close()
    reader.close()
    assert shards.open_now == 0


def test_a_failing_shard_is_named():
    def broken(name, offset):
        yield 1
        raise OSError("disk on fire")

    reader = StreamReader(ShardedStream(["part-0"], broken))
    with pytest.raises(SampleError, match=r"'part-0' on rank 0.*offset 0.*disk on fire") as caught:
        reader.read(LeaseTable(1), 0, 1, 4)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("names", "opener", "message"),
    [
        ([], iter, "there are none"),
        ("path", iter, "no list of names"),
        ([1, 2], iter, "no list of names"),
        (["a", "b", "a"], iter, "occurs twice"),
        (["a"], None, "cannot be called"),
    ],
)
def test_bad_streams_are_refused(names, opener, message):
    with pytest.raises(ConfigError, match=message):
        ShardedStream(names, opener)


def test_a_table_of_another_stream_is_refused():
    stream = Shards([1, 1]).stream()
    stream.check_table(LeaseTable(2))
    with pytest.raises(StateMismatch, match="3 shards, this one has 2"):
        stream.check_table(LeaseTable(3))
