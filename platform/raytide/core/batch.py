"""Batch sizes a job can be trained with, and how a batch is split over replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from raytide.errors import ConfigError


@dataclass(frozen=True)
class BatchLimits:
    """What may be chosen for a job whose batch size is free.

    Attributes:
        smallest_batch: Samples of one iteration over all replicas, at least; gains are relative to it.
        largest_batch: The same, at most.
        min_local: Samples that one replica takes at a time, at least.
        max_local: The same, at most; a larger share is accumulated.
    """

    smallest_batch: int
    largest_batch: int
    min_local: int
    max_local: int

    def __post_init__(self) -> None:
        if not 0 < self.smallest_batch <= self.largest_batch:
            problem = f"{self.smallest_batch} to {self.largest_batch}"
            raise ConfigError("BatchLimits", f"batch {problem} is no range", "Order them")
        if not 0 < self.min_local <= self.max_local:
            raise ConfigError("BatchLimits", f"local batch {self.min_local} to {self.max_local}", "Order them")

    @property
    def most_replicas(self) -> int:
        """Replicas that can share the largest batch."""
        return self.largest_batch // self.min_local


class Split(NamedTuple):
    """How a batch is trained.

    Attributes:
        replicas: How many GPUs share it.
        atomic: Samples of one pass on one replica.
        accumulation: Passes before the one that reduces the gradients over the replicas.
    """

    replicas: int
    atomic: int
    accumulation: int

    @property
    def batch(self) -> int:
        """Samples of one iteration, which rounding may have made a few more or less than asked for."""
        return self.replicas * self.atomic * (self.accumulation + 1)


def split_batch(limits: BatchLimits, batch: int, replicas: int, *, accumulate_alone: bool = False) -> Split:
    """Split ``batch`` over ``replicas`` as Pollux's simulator does (OSDI'21).

    All sizes are whole numbers, so rounding is exact and needs no tolerance.

    Args:
        limits: Those of the application.
        batch: Samples of one iteration in all.
        replicas: How many GPUs share them.
        accumulate_alone: Let a single replica always accumulate, even at the smallest batch. Otherwise it does
            from the next larger batch on: without, it could not measure its gradient's noise.

    Raises:
        ConfigError: There is no replica, or fewer samples than replicas.
    """
    if not 0 < replicas <= batch:
        raise ConfigError("replicas", f"{replicas} cannot share {batch} samples", "Give each at least one.")
    local = _ceil_div(batch, replicas)
    accumulation = _ceil_div(local, limits.max_local) - 1
    if replicas == 1 and (accumulate_alone or batch > limits.smallest_batch):
        accumulation = max(accumulation, 1)
    passes = accumulation + 1
    atomic = min(_ceil_div(local, passes), limits.largest_batch // (replicas * passes))
    return Split(replicas, atomic, accumulation)


def _ceil_div(amount: int, parts: int) -> int:
    return -(-amount // parts)
