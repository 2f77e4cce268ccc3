"""Which samples of a step belong to which rank, as a pure function of the cursor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from raytide.errors import ConfigError
from raytide.train.data.order import Order, take


@dataclass(frozen=True)
class Share:
    """Positions ``start .. stop - 1`` in the order of an epoch; empty if both are equal."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise AssertionError(f"no share of an order: {self}")

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class LocalBatch:
    """What one rank loads for one forward and backward pass.

    Attributes:
        epoch: Number of the epoch, from 0.
        step: Global step number of the job; not reset by a new epoch.
        micro: Which of the rank's micro-batches of this step, from 0.
        num_micro: How many micro-batches the rank has in this step.
        indices: Indices into the dataset, in order.
        weight: Part of the step's global batch these samples make up; the weights of all micro-batches
            of all ranks add up to 1. It is 0 for a dummy: a rank whose share is empty loads the first
            sample of the global batch, runs it, and contributes nothing.
    """

    epoch: int
    step: int
    micro: int
    num_micro: int
    indices: tuple[int, ...]
    weight: float

    @property
    def is_dummy(self) -> bool:
        """Whether the rank has no samples in this step."""
        return self.weight == 0.0

    @property
    def is_last_micro(self) -> bool:
        """Whether the optimizer acts after this one."""
        return self.micro == self.num_micro - 1


def _split(share: Share, parts: int) -> tuple[Share, ...]:
    """Cut into contiguous parts whose sizes differ by at most one, larger ones first."""
    size, extra = divmod(len(share), parts)
    edges = [share.start + part * size + min(part, extra) for part in range(parts + 1)]
    return tuple(Share(start, stop) for start, stop in pairwise(edges))


def shares(cursor: int, count: int, world_size: int) -> tuple[Share, ...]:
    """Split the ``count`` positions from ``cursor`` on over the ranks, in rank order.

    Shares are contiguous and their sizes differ by at most one, larger ones first; with fewer samples
    than ranks the last ranks get empty ones.
    """
    if world_size < 1:
        raise AssertionError(f"a step needs a rank, got world_size={world_size}")
    return _split(Share(cursor, cursor + count), world_size)


def micro_batches(share: Share, max_local_batch: int | None) -> tuple[Share, ...]:
    """Cut a share into the fewest parts of at most ``max_local_batch`` samples, as equal as possible.

    ``None`` means no limit. An empty share stays one empty part.
    """
    if max_local_batch is None or len(share) <= max_local_batch:
        return (share,)
    return _split(share, -(-len(share) // max_local_batch))


def global_batch(length: int, cursor: int, global_batch_size: int, drop_last: bool) -> Share | None:
    """Return the positions of the step at ``cursor``, or ``None`` when the epoch has no step left.

    The cursor after the step is ``stop`` of the result.
    """
    stop = min(cursor + global_batch_size, length)
    if stop <= cursor or (drop_last and stop - cursor < global_batch_size):
        return None
    return Share(cursor, stop)


def local_batches(  # noqa: PLR0913 - all of them are facts of one step
    order: Order,
    *,
    epoch: int,
    step: int,
    cursor: int,
    global_batch_size: int,
    rank: int,
    world_size: int,
    max_local_batch: int | None,
    drop_last: bool,
) -> tuple[LocalBatch, ...]:
    """Return what ``rank`` loads for the step that starts at ``cursor``.

    At least one batch per rank and step, so that every rank takes part in every reduction; empty only
    when the epoch is over.
    """
    whole = global_batch(len(order), cursor, global_batch_size, drop_last)
    if whole is None:
        return ()
    share = shares(whole.start, len(whole), world_size)[rank]
    if not len(share):
        return (LocalBatch(epoch, step, 0, 1, take(order, cursor, cursor + 1), 0.0),)
    parts = micro_batches(share, max_local_batch)
    return tuple(
        LocalBatch(epoch, step, number, len(parts), take(order, p.start, p.stop), len(p) / len(whole))
        for number, p in enumerate(parts)
    )


def check_equal_shares(global_batch_size: int, world_size: int) -> None:
    """Refuse a batch that cannot be split into equal, non-empty shares (``equal_shares=True``).

    Raises:
        ConfigError: The batch is smaller than the world size, or no multiple of it.
    """
    if global_batch_size < world_size:
        raise ConfigError(
            "equal_shares",
            f"a global batch of {global_batch_size} leaves some of {world_size} replicas without samples",
            f"Raise global_batch_size to at least {world_size}, or allow fewer replicas.",
        )
    if global_batch_size % world_size:
        lower = global_batch_size - global_batch_size % world_size
        raise ConfigError(
            "equal_shares",
            f"a global batch of {global_batch_size} cannot be split evenly over {world_size} replicas",
            f"Use a multiple such as {lower} or {lower + world_size}, or equal_shares=False: "
            "unequal shares are weighted exactly.",
        )
