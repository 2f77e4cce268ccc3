"""Validation passes: every sample is evaluated by one rank, whoever is lost meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from raytide.elastic.member import Proceed
from raytide.train.data import IndexLoader, check_dataset, epoch_order, eval_batches, num_eval_batches
from raytide.train.data.checks import check_positive
from raytide.train.devices import to_device
from raytide.train.exchange import UserCollectives
from raytide.train.feed import BatchOptions
from raytide.train.standing import Standing
from raytide.train.validation import Key

logger = logging.getLogger(__name__)

MAX_LOADERS = 4
"""Loaders are kept for the next pass, the longest unused one is closed: a loop may make its datasets anew."""


class _Pass:
    """What is evaluated in one pass."""

    def __init__(self, dataset: Any, options: BatchOptions, loader: IndexLoader, max_replicas: int) -> None:
        self.length = check_dataset(dataset)
        size = -(-check_positive("global_batch_size", options.global_batch_size, "samples") // max_replicas)
        self.batch_size = min(size, options.max_local_batch or size)
        self.num_batches = num_eval_batches(self.length, self.batch_size)
        self._loader = loader

    def load(self, numbers: Sequence[int]) -> Iterator[Any]:
        """The content of the batches with these numbers."""
        order = epoch_order(self.length, seed=0, epoch=0, shuffle=False)
        for _, content in self._loader.load(eval_batches(order, self.batch_size, numbers, epoch=0)):
            yield content


class Evaluation:
    """The validation passes of one replica.

    Args:
        standing: Where it stands.
        exchange: Tells when all have done their part.
    """

    def __init__(self, standing: Standing, exchange: UserCollectives) -> None:
        self._standing = standing
        self._exchange = exchange
        self._loaders: dict[tuple[int, BatchOptions], tuple[Any, IndexLoader]] = {}

    def batches(self, dataset: Any, options: BatchOptions) -> Iterator[Any]:
        """This replica's part of a pass; after a failure, also its part of what was lost."""
        at = self._standing
        at.refuse_within_step("batches(train=False)")
        at.engine.resolve()
        whole = _Pass(dataset, options, self._loader(dataset, options), at.spec.max_replicas)
        # In a step that is done again nothing counts, but the loop still expects a batch.
        if not at.inert and not at.engine.repeats:
            at.engine.finish()
            if at.settle(boundary=False) is not None:
                yield from self._counted(whole)
                return
        for content in whole.load([0]):
            yield to_device(content, at.spec.device)

    def _counted(self, whole: _Pass) -> Iterator[Any]:
        journal = self._standing.journal
        key = journal.begin_pass(whole.num_batches)
        try:
            yield from self._until_whole(whole, key)
        finally:
            journal.end_pass(key)

    def _until_whole(self, whole: _Pass, key: Key) -> Iterator[Any]:
        """Nobody leaves a pass before all have done their part: what goes with a lost replica is done again."""
        at = self._standing
        while True:
            action = at.settle(boundary=False)
            if not isinstance(action, Proceed):
                return
            place = f"validation {key[1]} after step {key[0]}"
            at.place = place
            to_do = at.journal.to_do(key, action.generation.members)
            for number, content in zip(to_do, whole.load(to_do), strict=True):
                yield to_device(content, at.spec.device)
                at.journal.consumed(key, number)
                if not at.membership.healthy:
                    break
            if at.membership.healthy and self._exchange.attempt(at.journal.end_of(key), [], place) is not None:
                return

    def _loader(self, dataset: Any, options: BatchOptions) -> IndexLoader:
        key = (id(dataset), options)
        # The dataset is kept with its loader: its id must not be given to another one.
        known = self._loaders.pop(key, None) or (dataset, IndexLoader(dataset, options.loader))
        while len(self._loaders) >= MAX_LOADERS:
            _, unused = self._loaders.pop(next(iter(self._loaders)))
            unused.close()
        self._loaders[key] = known
        return known[1]

    def tell_lost(self) -> None:
        """Say which samples no result contains: their replica was lost after the others had left the pass."""
        at = self._standing
        active = at.generation
        for key, count in at.journal.lost(active.members if active else ()).items():
            logger.warning("validation %d after step %d lacks %d batches of a lost replica", key[1], key[0], count)

    def close(self) -> None:
        """End loader processes."""
        for _, loader in self._loaders.values():
            loader.close()
