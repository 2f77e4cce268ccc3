"""Training on data that can only be read in sequence: shards of files, opened at an offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from raytide.errors import ConfigError, StateMismatch
from raytide.train.data.errors import SampleError
from raytide.train.data.leases import Lease, LeaseTable, LeaseUpdate

OpenShard = Callable[[str, int], Iterator[Any]]
"""``open_shard(name, offset)`` yields the shard's samples after the first ``offset`` ones."""


@dataclass(frozen=True)
class ShardedStream:
    """Samples in shards without an index.

    Shards may differ in length, and their lengths need not be known. Reading a shard twice must give the
    same samples in the same order.

    Attributes:
        shards: Names of the shards, for instance paths; each once.
        open_shard: Opens a shard at an offset, counted in samples. Skip cheaply if the format can: it is
            called when a shard changes hands, after failures and on resume. An iterator with a ``close``
            method is closed when it is no longer needed.
    """

    shards: Sequence[str]
    open_shard: OpenShard

    def __post_init__(self) -> None:
        if isinstance(self.shards, str) or not all(isinstance(shard, str) for shard in self.shards):
            raise ConfigError("shards", "it is no list of names", "Pass a list of strings, such as paths.")
        if not self.shards:
            raise ConfigError("shards", "there are none", "Pass at least one (does the pattern match?).")
        if len(set(self.shards)) < len(self.shards):
            raise ConfigError("shards", "a name occurs twice", "Remove it, or its samples count twice.")
        if not callable(self.open_shard):
            raise ConfigError("open_shard", f"{self.open_shard!r} cannot be called", "Pass a function (name, offset).")

    def table(self, *, seed: int, shuffle: bool = False, epoch: int = 0) -> LeaseTable:
        """Return the untouched table of an epoch."""
        return LeaseTable(len(self.shards), seed, epoch, shuffle)

    def check_table(self, table: LeaseTable) -> None:
        """Refuse a restored table of another stream.

        Raises:
            StateMismatch: The number of shards differs.
        """
        if table.num_shards != len(self.shards):
            raise StateMismatch(
                f"the saved position is of a stream with {table.num_shards} shards, this one has "
                f"{len(self.shards)}; resume with the same shards or start the epoch anew"
            )


class StreamReader:
    """Reads the shards that a rank holds, keeping the current one open between steps.

    Not safe for several threads. The reader's own position is a cache: each read states where it must
    start, and a position that does not fit (a repeated step, another shard) opens the shard again.
    """

    def __init__(self, stream: ShardedStream) -> None:
        self._stream = stream
        self._shard = -1
        self._offset = 0
        self._samples: Iterator[Any] = iter(())
        self._ahead: list[Any] = []

    def read(self, table: LeaseTable, rank: int, world_size: int, count: int) -> tuple[list[Any], LeaseUpdate]:
        """Read up to ``count`` samples of the shard that ``rank`` holds.

        ``count`` is the rank's entry of ``table.counts``. Fewer come back at the end of the shard; the
        rank gets its next shard in the next step. None come back from an empty shard, or when the rank
        holds none. So a step may be without any sample although ``table.finished`` is false: it is
        committed without an optimizer step.

        Returns:
            The samples, and what to commit for this rank. A rank's weight in the step is its number of
            samples over the sum of all ranks' counts.

        Raises:
            SampleError: ``open_shard`` or its iterator raised.
        """
        lease = table.holder(rank, world_size)
        if lease is None:
            return [], LeaseUpdate(rank, None, 0, 0, False)
        try:
            self._seek(lease)
            samples = self._take(count)
            # One sample ahead, so that the end is known with the last sample instead of an empty step.
            self._ahead = self._take(1) if len(samples) == count else []
        except Exception as error:
            self.close()
            where = f"shard {self._stream.shards[lease.shard]!r} on rank {rank}"
            raise SampleError(where, (), f"reading at offset {lease.offset} raised {error!r}") from error
        self._offset += len(samples)
        return samples, LeaseUpdate(rank, lease.shard, lease.offset, len(samples), not self._ahead)

    def _seek(self, lease: Lease) -> None:
        if (self._shard, self._offset) != (lease.shard, lease.offset):
            self.close()
            self._samples = iter(self._stream.open_shard(self._stream.shards[lease.shard], lease.offset))
            self._shard, self._offset = lease.shard, lease.offset

    def _take(self, count: int) -> list[Any]:
        ahead, self._ahead = self._ahead[:count], self._ahead[count:]
        return ahead + list(islice(self._samples, count - len(ahead)))

    def close(self) -> None:
        """Close the open shard, if any."""
        close = getattr(self._samples, "close", None)
        if close is not None:
            close()
        self._shard, self._offset, self._samples, self._ahead = -1, 0, iter(()), []
