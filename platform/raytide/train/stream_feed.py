"""Batches of a stream of shards: read in sequence, leased shard by shard, counted with the step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import default_collate

from raytide.elastic.model import Position
from raytide.train.data import (
    LeaseTable,
    LeaseUpdate,
    ShardedStream,
    StreamReader,
    micro_batches,
)
from raytide.train.data.split import Share
from raytide.train.feed import BatchOptions, Piece, Split, SplitAt
from raytide.train.gradients import MicroBatch


class StreamFeed:
    """Batches of a :class:`~raytide.train.data.ShardedStream`.

    A rank reads its share of the global batch from the shard it holds. How much that was is reduced beside
    the vote, so that every rank knows every shard's offset when the step is applied, and the weights are
    exact when a shard ends in mid-batch.
    """

    decided_by_vote = True

    def __init__(self, stream: ShardedStream, options: BatchOptions) -> None:
        self._stream = stream
        self._options = options
        self._reader = StreamReader(stream)
        self._table = stream.table(seed=options.loader.seed, shuffle=options.shuffle)
        self._split: Split = (0, 1)
        self._samples: list[Any] = []
        self._updates: tuple[LeaseUpdate, ...] = ()
        self._total = 0

    @property
    def depth(self) -> int:
        return 0

    @property
    def seed(self) -> int:
        return self._options.loader.seed

    @property
    def wait_s(self) -> float:
        return 0.0

    def start(self) -> None:
        pass  # shards are opened when they are leased

    def rehearse(self, epoch: int) -> Any:
        return self._collate(self._dummy())

    def _dummy(self) -> list[Any]:
        """Samples that do not count."""
        samples = iter(self._stream.open_shard(self._stream.shards[0], 0))
        first = [next(samples)]
        close = getattr(samples, "close", None)
        if close is not None:
            close()
        return first * 2  # layers that normalize over the batch refuse a single sample

    def _collate(self, samples: list[Any]) -> Any:
        return (self._options.loader.collate_fn or default_collate)(samples)

    def begin_epoch(self, epoch: int) -> None:
        while self._table.epoch < epoch:
            self._table = self._table.next_epoch()

    def ended(self, position: Position) -> bool:
        return self._table.epoch == position.epoch and self._table.finished

    def after(self, position: Position) -> Position:
        return Position(position.step + 1, position.epoch, position.cursor + self._total)

    def open_step(self, position: Position, split_at: SplitAt) -> list[int]:
        split = split_at(position.step)
        assert split is not None, "a step of a generation without this replica"
        rank, world_size = self._split = split
        self.begin_epoch(position.epoch)
        # By the leases, not by ranks: a share must never wait for a rank that holds no shard.
        count = self._table.counts(world_size, self._options.global_batch_size)[rank]
        self._samples, update = self._reader.read(self._table, rank, world_size, count)
        self._updates, self._total = (), 0
        return self._table.encode(update, world_size)

    def decide(self, numbers: list[int]) -> None:
        if numbers:
            self._updates = self._table.decode(numbers, self._split[1])
            self._total = sum(update.count for update in self._updates)

    def pieces(self) -> Iterator[Piece]:
        if not self._total:
            return  # every shard ended here: a step without samples
        if not self._samples:
            dummy = MicroBatch(0.0, first=True, last=True, several=False)
            yield Piece(self._collate(self._dummy()), dummy)
            return
        parts = micro_batches(Share(0, len(self._samples)), self._options.max_local_batch)
        for number, part in enumerate(parts):
            micro = MicroBatch(
                len(part) / self._total,
                first=number == 0,
                last=number == len(parts) - 1,
                several=len(parts) > 1,
            )
            yield Piece(self._collate(self._samples[part.start : part.stop]), micro)

    def committed(self) -> None:
        self._table = self._table.commit(self._updates, self._split[1])

    def drop(self) -> None:
        self._reader.close()

    def state(self) -> dict[str, Any]:
        return {"leases": self._table.to_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        if "leases" in state:
            table = LeaseTable.from_dict(state["leases"])
            self._stream.check_table(table)
            self._table = table

    def close(self) -> None:
        self._reader.close()
