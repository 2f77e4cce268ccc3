"""Feeds: where a training pass gets the batches of its steps from.

A feed is kept for the whole job, so that loader processes and read-ahead survive epochs and resizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from raytide.elastic.model import Position
from raytide.errors import ConfigError
from raytide.train.data import (
    IndexLoader,
    LoaderOptions,
    LocalBatch,
    Order,
    check_batching,
    check_dataset,
    check_equal_shares,
    epoch_order,
    global_batch,
    local_batches,
)
from raytide.train.gradients import MicroBatch

Split = tuple[int, int]
"""Rank and world size."""

SplitAt = Callable[[int], Split | None]
"""The split that holds for a step, as far as agreed; None for a replica that has left by then."""


@dataclass(frozen=True)
class BatchOptions:
    """Arguments of ``batches()`` that shape a training pass.

    Attributes:
        global_batch_size: Samples of one optimizer step, over all replicas.
        shuffle: A new order of samples in every epoch.
        drop_last: Leave out the last, incomplete step of an epoch.
        max_local_batch: Samples that fit into one replica at once; larger shares are split.
        equal_shares: Refuse replica counts that do not divide the global batch.
        loader: How samples are loaded.
    """

    global_batch_size: int
    shuffle: bool = False
    drop_last: bool = False
    max_local_batch: int | None = None
    equal_shares: bool = False
    loader: LoaderOptions = field(default_factory=LoaderOptions)


@dataclass(frozen=True)
class Piece:
    """One micro-batch for the loop; ``indices`` are empty for a dummy and for streams."""

    content: Any
    micro: MicroBatch
    indices: tuple[int, ...] = ()


class Feed(Protocol):
    """What a training pass needs of a source of batches."""

    decided_by_vote: bool
    """Whether the size of a step is known only when the ranks have told each other what they read."""

    @property
    def depth(self) -> int:
        """Steps that may have been loaded ahead."""

    @property
    def seed(self) -> int:
        """Of the order of samples and of the random numbers of steps."""

    @property
    def wait_s(self) -> float:
        """Seconds the loop has waited for data."""

    def start(self) -> None:
        """Be ready to load: processes are up and have the dataset."""

    def rehearse(self, epoch: int) -> Any:
        """One real batch that will not count."""

    def begin_epoch(self, epoch: int) -> None:
        """The job enters ``epoch``."""

    def ended(self, position: Position) -> bool:
        """Whether the epoch of ``position`` has no step left."""

    def after(self, position: Position) -> Position:
        """The boundary after the step at ``position``."""

    def open_step(self, position: Position, split_at: SplitAt) -> list[int]:
        """Get ready for the step at ``position``; returns numbers to be reduced with MAX beside the vote."""

    def decide(self, numbers: list[int]) -> None:
        """Take the reduced numbers (empty when the step is lost)."""

    def pieces(self) -> Iterator[Piece]:
        """The micro-batches of this replica in the open step."""

    def committed(self) -> None:
        """The open step counts."""

    def drop(self) -> None:
        """Forget what was loaded ahead: an unplanned change of membership made it worthless."""

    def state(self) -> dict[str, Any]:
        """What belongs to the job's state besides the position."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`."""

    def close(self) -> None:
        """End processes and files."""


class IndexFeed:
    """Batches of a dataset with an index.

    Args:
        dataset: Has ``__len__`` and ``__getitem__``.
        options: How it is cut into steps.
        max_replicas: The largest replica count of the job, for ``equal_shares``.
    """

    decided_by_vote = False

    def __init__(self, dataset: Any, options: BatchOptions, max_replicas: int) -> None:
        self._length = check_dataset(dataset)
        check_batching(
            self._length,
            options.global_batch_size,
            max_local_batch=options.max_local_batch,
            drop_last=options.drop_last,
        )
        if options.equal_shares and options.global_batch_size < max_replicas:
            raise ConfigError(
                "batches(global_batch_size=...)",
                f"{options.global_batch_size} samples cannot give each of up to {max_replicas} replicas a share",
                "Raise it, lower num_workers, or allow unequal shares",
            )
        self.dataset = dataset
        self.options = options
        self._loader = IndexLoader(dataset, options.loader)
        self._orders: dict[int, Order] = {}
        self._loading: Iterator[tuple[LocalBatch, Any]] | None = None
        self._splits: dict[int, Split] = {}
        self._next = Position()

    @property
    def depth(self) -> int:
        return self._loader.depth

    @property
    def seed(self) -> int:
        return self.options.loader.seed

    @property
    def wait_s(self) -> float:
        return self._loader.wait_s

    def start(self) -> None:
        self._loader.start()

    def begin_epoch(self, epoch: int) -> None:
        pass  # every epoch's order is computed when it is needed

    def rehearse(self, epoch: int) -> Any:
        size = min(self.options.global_batch_size, self.options.max_local_batch or self._length, self._length)
        one = LocalBatch(epoch, 0, 0, 1, tuple(int(i) for i in self._order(epoch)[:size]), 0.0)
        loading = self._loader.load(iter([one]))
        _, content = next(loading)
        self._loader.restart()
        return content

    def _order(self, epoch: int) -> Order:
        if epoch not in self._orders:
            seed, shuffle = self.options.loader.seed, self.options.shuffle
            order = epoch_order(self._length, seed=seed, epoch=epoch, shuffle=shuffle)
            self._orders = {e: o for e, o in self._orders.items() if e >= epoch - 1} | {epoch: order}
        return self._orders[epoch]

    def ended(self, position: Position) -> bool:
        return self._batch(position.cursor) is None

    def _batch(self, cursor: int) -> Any:
        return global_batch(self._length, cursor, self.options.global_batch_size, self.options.drop_last)

    def after(self, position: Position) -> Position:
        whole = self._batch(position.cursor)
        assert whole is not None, f"no step at {position}"
        return Position(position.step + 1, position.epoch, whole.stop)

    def open_step(self, position: Position, split_at: SplitAt) -> list[int]:
        split = split_at(position.step)
        assert split is not None, "a step of a generation without this replica"
        if self._loading is None or self._next != position or self._splits.get(position.step) != split:
            self._load_from(position, split_at)
        return []

    def decide(self, numbers: list[int]) -> None:
        raise AssertionError("the size of a step is known beforehand")

    def pieces(self) -> Iterator[Piece]:
        loading = self._loading
        assert loading is not None, "no step is open"
        last = False
        while not last:
            batch, content = next(loading)
            last = batch.is_last_micro
            if last:
                self._splits.pop(self._next.step, None)
                self._next = self.after(self._next)
            yield Piece(content, self._micro(batch), () if batch.is_dummy else batch.indices)

    def committed(self) -> None:
        pass  # the position says it all

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass

    def _load_from(self, position: Position, split_at: SplitAt) -> None:
        self._splits = {}
        self._next = position
        self._loading = self._loader.load(self._schedule(position, split_at))

    def _schedule(self, position: Position, split_at: SplitAt) -> Iterator[LocalBatch]:
        while not self.ended(position):
            split = split_at(position.step)
            if split is None:
                return
            rank, world_size = split
            if self.options.equal_shares:
                check_equal_shares(self.options.global_batch_size, world_size)
            self._splits[position.step] = split
            yield from (_doubled(b) if b.is_dummy else b for b in self._local(position, rank, world_size))
            position = self.after(position)

    def _local(self, position: Position, rank: int, world_size: int) -> Iterable[LocalBatch]:
        """What a rank loads for the step at ``position``."""
        return local_batches(
            self._order(position.epoch),
            epoch=position.epoch,
            step=position.step,
            cursor=position.cursor,
            global_batch_size=self.options.global_batch_size,
            rank=rank,
            world_size=world_size,
            max_local_batch=self.options.max_local_batch,
            drop_last=self.options.drop_last,
        )

    def _micro(self, batch: LocalBatch) -> MicroBatch:
        """How the gradients of a loaded batch count."""
        return MicroBatch(batch.weight, first=batch.micro == 0, last=batch.is_last_micro, several=batch.num_micro > 1)

    def drop(self) -> None:
        self._loading = None
        self._loader.restart()

    def close(self) -> None:
        self._loader.close()


def _doubled(dummy: LocalBatch) -> LocalBatch:
    """A dummy of two samples: layers that normalize over the batch refuse a single one."""
    return replace(dummy, indices=dummy.indices * 2)
