"""Splitting a total batch over replicas, with gradient accumulation where it does not fit."""

from __future__ import annotations

from typing import NamedTuple

from raytide.errors import ConfigError
from raytide.sim.pollux.application import Limits


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


def split_batch(limits: Limits, batch: int, replicas: int, *, accumulate_alone: bool = False) -> Split:
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
