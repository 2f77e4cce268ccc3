"""Which rank reads which shard of a stream, and how far each shard has been used.

A shard is a file, or anything else that can only be read in sequence. The table is part of a job's
state: it changes only by :meth:`LeaseTable.commit`, together with the step that used the samples, and is
saved in checkpoints. Every sample is therefore used exactly once per epoch, whatever resizes and
failures happen between commits: a step that is repeated starts from the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from raytide.train.data.checks import check_at_least, check_positive
from raytide.train.data.order import epoch_order, take
from raytide.train.data.split import shares


@dataclass(frozen=True)
class Lease:
    """A shard in use.

    Attributes:
        shard: Number of the shard.
        offset: Samples of it used so far in this epoch.
        rank: Who read it last; a preference only, so that a reader keeps its open file.
    """

    shard: int
    offset: int
    rank: int


@dataclass(frozen=True)
class LeaseUpdate:
    """What one rank read from its shard in one step.

    Attributes:
        rank: The rank.
        shard: Its shard, ``None`` if it held none.
        start: Offset before the step.
        count: Samples read.
        done: The shard has no more samples.
    """

    rank: int
    shard: int | None
    start: int
    count: int
    done: bool


@dataclass(frozen=True)
class LeaseTable:
    """The state of one epoch over ``num_shards`` shards.

    Shards are started in an order that depends on (seed, epoch) alone. All before ``started`` in that
    order are either in ``active`` or used up, so the table stays small however many shards there are.

    Attributes:
        num_shards: How many shards the stream has.
        seed: The job's seed.
        epoch: Number of the epoch, from 0.
        shuffle: Whether the order of shards changes from epoch to epoch.
        started: How many shards, in order, have been started.
        active: Those started and not used up, in the order of their start.
    """

    num_shards: int
    seed: int = 0
    epoch: int = 0
    shuffle: bool = False
    started: int = 0
    active: tuple[Lease, ...] = ()

    def __post_init__(self) -> None:
        check_positive("num_shards", self.num_shards, "shards")
        check_at_least("seed", self.seed, 0, "(any whole number)")
        check_at_least("epoch", self.epoch, 0, "(counted from 0)")
        if not len(self.active) <= self.started <= self.num_shards:
            raise AssertionError(f"{len(self.active)} active of {self.started} started shards: {self}")
        if len({lease.shard for lease in self.active}) < len(self.active):
            raise AssertionError(f"a shard is leased twice: {self}")

    @property
    def finished(self) -> bool:
        """Whether every shard is used up."""
        return self.started == self.num_shards and not self.active

    def next_epoch(self) -> LeaseTable:
        """Return the untouched table of the next epoch."""
        return replace(self, epoch=self.epoch + 1, started=0, active=())

    def assignment(self, world_size: int) -> tuple[Lease | None, ...]:
        """Return what every rank reads in the next step; at most one shard each, no shard twice.

        A rank keeps its shard where it can. Free ranks take started shards first, then new ones in
        order, so that at most ``world_size`` shards are ever half read after a job has shrunk and
        caught up. ``None``: there are fewer shards left than ranks.
        """
        held: list[Lease | None] = [None] * world_size
        spare: list[Lease] = []
        for lease in self.active:
            if lease.rank < world_size and held[lease.rank] is None:
                held[lease.rank] = lease
            else:
                spare.append(lease)
        free = [rank for rank in range(world_size) if held[rank] is None]
        new = self._order[self.started : self.started + max(0, len(free) - len(spare))]
        supply = [*spare, *(Lease(shard, 0, 0) for shard in new)]
        for rank, lease in zip(free, supply, strict=False):
            held[rank] = replace(lease, rank=rank)
        return tuple(held)

    def holder(self, rank: int, world_size: int) -> Lease | None:
        """Return what ``rank`` reads in the next step."""
        return self.assignment(world_size)[rank]

    def counts(self, world_size: int, global_batch_size: int) -> tuple[int, ...]:
        """Return how many samples every rank is to read: the global batch, split over those with a shard.

        Ranks without one get 0. Since the first holders always get something, an epoch always ends, even
        with fewer samples per step than ranks.
        """
        held = self.assignment(world_size)
        parts = iter(shares(0, global_batch_size, max(1, sum(lease is not None for lease in held))))
        return tuple(len(next(parts)) if lease is not None else 0 for lease in held)

    def commit(self, updates: Iterable[LeaseUpdate], world_size: int) -> LeaseTable:
        """Return the table after a step; ``updates`` are those of all ranks, in any order.

        Raises:
            AssertionError: An update does not follow from this table: it is of another step.
        """
        by_rank = {update.rank: update for update in updates}
        held = self.assignment(world_size)
        if sorted(by_rank) != list(range(world_size)):
            raise AssertionError(f"updates of ranks {sorted(by_rank)} for a world of {world_size}")
        after: dict[int, Lease] = {lease.shard: lease for lease in self.active}
        for rank, lease in enumerate(held):
            update = by_rank[rank]
            if (update.shard, update.start) != ((lease.shard, lease.offset) if lease else (None, 0)):
                raise AssertionError(f"{update} does not continue {lease}")
            if lease is None:
                continue
            after[lease.shard] = replace(lease, offset=lease.offset + update.count)
            if update.done:
                del after[lease.shard]
        known = {lease.shard for lease in self.active}
        new = sum(lease is not None and lease.shard not in known for lease in held)
        return replace(self, started=self.started + new, active=tuple(after.values()))

    def encode(self, update: LeaseUpdate, world_size: int) -> list[int]:
        """Return an update as numbers to be combined over all ranks with MAX, beside the vote.

        Two per rank, the count and 1 if done; zero in the places of other ranks.
        """
        numbers = [0] * (2 * world_size)
        numbers[2 * update.rank : 2 * update.rank + 2] = update.count, int(update.done)
        return numbers

    def decode(self, numbers: Sequence[float], world_size: int) -> tuple[LeaseUpdate, ...]:
        """Return the updates of all ranks from the maximum of their :meth:`encode`."""
        updates = []
        for rank, lease in enumerate(self.assignment(world_size)):
            count, done = int(numbers[2 * rank]), bool(numbers[2 * rank + 1])
            shard, start = (lease.shard, lease.offset) if lease else (None, 0)
            updates.append(LeaseUpdate(rank, shard, start, count, done))
        return tuple(updates)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values for a checkpoint."""
        plain = {name: getattr(self, name) for name in ("num_shards", "seed", "epoch", "shuffle", "started")}
        return plain | {"active": [[lease.shard, lease.offset, lease.rank] for lease in self.active]}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> LeaseTable:
        """Return the table that :meth:`to_dict` saved."""
        return cls(**{**saved, "active": tuple(Lease(*lease) for lease in saved["active"])})

    @property
    def _order(self) -> tuple[int, ...]:
        return _shard_order(self.num_shards, self.seed, self.epoch, self.shuffle)


@lru_cache(maxsize=8)
def _shard_order(num_shards: int, seed: int, epoch: int, shuffle: bool) -> tuple[int, ...]:
    return take(epoch_order(num_shards, seed=seed, epoch=epoch, shuffle=shuffle), 0, num_shards)
