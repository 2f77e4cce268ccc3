"""Batches for the deterministic mode: every step is cut into the same shards, whoever computes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raytide.elastic.model import Position
from raytide.errors import ConfigError
from raytide.train.data import LocalBatch, global_batch, shares
from raytide.train.data.order import take
from raytide.train.feed import BatchOptions, IndexFeed
from raytide.train.gradients import MicroBatch
from raytide.train.services import SessionSpec


class ShardFeed(IndexFeed):
    """Batches of a dataset with an index, cut into virtual shards.

    A shard is a micro-batch. Each rank computes a contiguous run of them, so sizes, shapes and contents of
    all micro-batches of a step are the same at any world size.
    """

    def __init__(self, dataset: Any, options: BatchOptions, spec: SessionSpec) -> None:
        super().__init__(dataset, options, spec.max_replicas)
        self._num_shards = spec.virtual_shards
        self._runs: dict[int, tuple[int, int, int]] = {}
        size = -(-options.global_batch_size // self._num_shards)
        if options.max_local_batch is not None and size > options.max_local_batch:
            raise ConfigError(
                "batches(max_local_batch=...)",
                f"{self._num_shards} virtual shards of {options.global_batch_size} samples have {size} each",
                f"Set virtual_shards to at least {-(-options.global_batch_size // options.max_local_batch)}",
            )

    def _local(self, position: Position, rank: int, world_size: int) -> Iterable[LocalBatch]:
        order = self._order(position.epoch)
        whole = global_batch(len(order), position.cursor, self.options.global_batch_size, self.options.drop_last)
        assert whole is not None, f"no step at {position}"
        shards = [s for s in shares(whole.start, len(whole), self._num_shards) if len(s)]
        run = shares(0, len(shards), world_size)[rank]
        self._runs[position.step] = (rank, world_size, len(shards))
        if not len(run):
            dummy = take(order, whole.start, whole.start + 1)
            return [LocalBatch(position.epoch, position.step, 0, 1, dummy, 0.0)]
        return [
            LocalBatch(position.epoch, position.step, i, len(run), take(order, s.start, s.stop), len(s) / len(whole))
            for i, s in enumerate(shards[run.start : run.stop])
        ]

    def _micro(self, batch: LocalBatch) -> MicroBatch:
        rank, world_size, num_shards = self._runs[batch.step]
        if batch.is_last_micro:
            self._runs = {step: run for step, run in self._runs.items() if step > batch.step}
        return MicroBatch(
            batch.weight,
            first=batch.micro == 0,
            last=batch.is_last_micro,
            several=True,
            shard=shares(0, num_shards, world_size)[rank].start + batch.micro,
            num_shards=num_shards,
        )
