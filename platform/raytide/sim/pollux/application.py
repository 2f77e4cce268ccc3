"""A measured application: its limits, and what validation runs told about its training.

Pollux (Qiao et al., OSDI'21) trained each application to the end at several batch sizes and recorded per
epoch how far it had come, and the noise of its gradients, which tells what a larger batch is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np

from raytide.core import BatchLimits, GradientNoise
from raytide.errors import ConfigError
from raytide.sim.pollux.step_time import StepTimes
from raytide.sim.pollux.tables import FloatArray


@dataclass(frozen=True)
class Limits(BatchLimits):
    """What an application can be run with.

    Attributes:
        epochs: After how many the job is done.
    """

    epochs: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 1:
            raise ConfigError("Limits", f"{self.epochs} epochs", "Give at least one.")


@dataclass(frozen=True, eq=False)
class Validation:
    """What validation runs measured at the end of each epoch; arrays have shape (epochs, batches).

    Attributes:
        batches: The total batch of each run, ascending.
        progress: Iterations at the smallest batch that would have come as far.
        iterations: Iterations done.
        grad_sqr: Squared norm of the mean gradient.
        grad_var: Variance of the gradient at the smallest batch.
    """

    batches: tuple[int, ...]
    progress: FloatArray
    iterations: FloatArray
    grad_sqr: FloatArray
    grad_var: FloatArray

    def between(self, table: FloatArray, batch: int) -> FloatArray:
        """Each epoch's value at ``batch``, linear between the two nearest runs; shape (epochs,)."""
        if not self.batches[0] <= batch <= self.batches[-1]:
            problem = f"{batch} is outside {self.batches[0]} to {self.batches[-1]}"
            raise ConfigError("batch", problem, "Keep to the application's limits.")
        return np.array([np.interp(batch, self.batches, row) for row in table])


@dataclass(frozen=True, eq=False)
class Application:
    """One application of the public data; equal only to itself.

    Attributes:
        name: Such as ``cifar10``.
        limits: What it can be run with.
        validation: What its validation runs measured.
        step_times: How long its steps take.
    """

    name: str
    limits: Limits
    validation: Validation
    step_times: StepTimes
    _noise: dict[int, tuple[GradientNoise, ...]] = field(default_factory=dict, init=False, repr=False)
    _ahead: dict[int, tuple[float, ...]] = field(default_factory=dict, init=False, repr=False)
    _iterations: dict[int, tuple[float, ...]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def boundaries(self) -> tuple[float, ...]:
        """Progress at which each epoch ends, 0 first: epoch ``e`` lies between entries ``e`` and ``e + 1``."""
        return (0.0, *self.validation.progress.min(axis=1).tolist())

    def gain(self, batch: int, epoch: int) -> float:
        """Progress of one iteration of ``batch`` in ``epoch`` (from 0): 1 at the smallest batch, then more.

        With squared gradient q, variance v and scale s = batch / smallest batch it is (v + q) / (v / s + q):
        Pollux's statistical efficiency times s.

        Raises:
            ConfigError: The batch is outside the limits, or there is no such epoch.
        """
        self._check(epoch)
        return self.noise(batch, epoch).gain(batch / self.limits.smallest_batch)

    def iterations_from(self, batch: int, epoch: int) -> float:
        """Iterations of ``batch`` that it takes from the start of ``epoch`` (from 0) to the end of the last one.

        Raises:
            ConfigError: The batch is outside the limits.
        """
        if batch not in self._ahead:
            steps = [
                (end - begin) / self.gain(batch, e)
                for e, (begin, end) in enumerate(zip(self.boundaries, self.boundaries[1:], strict=False))
            ]
            self._ahead[batch] = tuple(accumulate(reversed(steps), initial=0.0))
        return self._ahead[batch][self.limits.epochs - epoch]

    def remaining_iterations(self, batch: int, epoch: int) -> float:
        """Iterations of ``batch`` left from ``epoch`` (from 0) to the last; 1 in the last and afterwards.

        This is what Pollux's Optimus with an oracle knows.

        Raises:
            ConfigError: The batch is outside the limits.
        """
        if batch not in self._iterations:
            self._iterations[batch] = tuple(self.validation.between(self.validation.iterations, batch).tolist())
        done = self._iterations[batch]
        return done[-1] - done[epoch] if epoch < self.limits.epochs - 1 else 1.0

    def noise(self, batch: int, epoch: int) -> GradientNoise:
        """Noise of the gradients in ``epoch`` (from 0) at ``batch``.

        Raises:
            ConfigError: The batch is outside the limits, or there is no such epoch.
        """
        self._check(epoch)
        if batch not in self._noise:
            sqr = self.validation.between(self.validation.grad_sqr, batch)
            var = self.validation.between(self.validation.grad_var, batch)
            scale = batch / self.limits.smallest_batch
            self._noise[batch] = tuple(GradientNoise(float(q), float(v), scale) for q, v in zip(sqr, var, strict=True))
        return self._noise[batch][epoch]

    def _check(self, epoch: int) -> None:
        if not 0 <= epoch < self.limits.epochs:
            raise ConfigError(
                "epoch", f"{self.name} has no epoch {epoch}", f"Epochs are 0 to {self.limits.epochs - 1}."
            )
