"""Goodput: how much training a second brings, by number of GPUs, with the batch size chosen for it.

Source: Qiao et al., *Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning*, OSDI 2021, section 3:
throughput times statistical efficiency, the latter from the noise of the gradients (McCandlish et al., *An Empirical
Model of Large-Batch Training*, 2018). Pollux searches seven coefficients; here few are left, and all in closed form:

* computing is a line over the samples that a GPU takes at a time;
* the network carries what a ring carries, ``(n - 1) / n`` of the gradients twice, at one speed inside a node and at
  another across nodes;
* both overlap as the legs of a right triangle (Pollux's exponent, held at 2);
* where the job has run already, what was measured corrects the model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from raytide.core.batch import BatchLimits, Split, split_batch
from raytide.errors import ConfigError

Floats = NDArray[np.float64]
Scale = TypeVar("Scale", float, Floats)

BATCHES_TRIED = 32
"""Total batch sizes that are compared for a number of GPUs, in equal ratios from the smallest to the largest."""

NOISE_GROWTH = 0.4
"""Exponent with which the ratio of variance and squared norm grows with the batch it is measured at."""

ASSUMED_WEIGHT, ASSUMED_FAR = 0.1, 4.0
"""What the assumption about computing weighs beside a measurement, and at how many times the largest measured size."""

LOCAL_GUESS, NETWORK_GUESS = 1.0, 3.5
"""Time on the network inside one node and across several before anything was measured, over that of computing the
smallest local batch."""


@dataclass(frozen=True, slots=True)
class StepSample:
    """The measured step of one configuration.

    Attributes:
        gpus: Replicas, one GPU each.
        nodes: Nodes they are on.
        atomic: Samples that one replica takes at a time.
        step_s: Seconds of one pass whose gradients are reduced.
        sync_s: What the network adds to it.
    """

    gpus: int
    nodes: int
    atomic: int
    step_s: float
    sync_s: float

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= self.gpus or self.atomic < 1 or not 0 <= self.sync_s < self.step_s:
            raise ConfigError(
                "StepSample", f"{self} is no measurement", "Give 0 <= sync_s < step_s, 1 <= nodes <= gpus"
            )


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """What tells how much a larger batch is worth.

    Attributes:
        sqr: Squared norm of the mean gradient.
        var: Variance of the gradient at the smallest batch.
        scale: The batch at which they were measured, over the smallest.
    """

    sqr: float
    var: float
    scale: float = 1.0

    def gain(self, scale: Scale) -> Scale:
        """Progress of one iteration of ``scale`` times the smallest batch; 1 at 1, and never above ``scale``.

        Measured at a small batch, the squared norm contains noise that a larger batch averages out. So var over sqr is
        taken to grow with the batch, as it does for all applications that Pollux measured.
        """
        var: Scale = self.var * (scale / self.scale) ** NOISE_GROWTH
        return (var + self.sqr) / (var / scale + self.sqr)


@dataclass(frozen=True, slots=True)
class Training:
    """What a job has reported of its training.

    Attributes:
        samples: The latest measurement of each configuration it has run.
        noise: The latest of its gradients; None before the first.
        iterations: Progress: iterations at the smallest batch that would have come as far.
        epochs: Epochs done, with the part of the present one.
    """

    samples: tuple[StepSample, ...] = ()
    noise: GradientNoise | None = None
    iterations: float = 0.0
    epochs: float = 0.0

    def with_sample(self, sample: StepSample) -> Training:
        """The same, and one measurement more or newer."""
        if sample in self.samples:
            return self
        key = (sample.gpus, sample.nodes, sample.atomic)
        others = tuple(s for s in self.samples if (s.gpus, s.nodes, s.atomic) != key)
        return replace(self, samples=(*others, sample))

    @property
    def most_gpus(self) -> int:
        """GPUs of the largest configuration that was measured; 0 before the first."""
        return max((sample.gpus for sample in self.samples), default=0)


@dataclass(frozen=True)
class _Line:
    """``base + slope * x``, both at least 0."""

    base: float
    slope: float

    def at(self, x: Floats) -> Floats:
        return self.base + self.slope * x


class Goodput:
    """The fitted model of one job.

    Args:
        limits: Batch sizes it may use.
        samples: What was measured.
        noise: Of its gradients; None: larger batches are worth nothing more.
    """

    def __init__(self, limits: BatchLimits, samples: Sequence[StepSample], noise: GradientNoise | None) -> None:
        self._limits = limits
        self._noise = noise
        self._compute = _fit_compute(samples, limits.min_local)
        least_s = float(self._compute.at(np.array(limits.min_local)))
        inside, across = (s for s in samples if s.nodes == 1 < s.gpus), (s for s in samples if s.nodes > 1)
        self._inside_s = _fit_network(inside) or LOCAL_GUESS * least_s
        self._across_s = _fit_network(across) or NETWORK_GUESS * least_s
        self._misfit = self._misfits(samples)
        self._best: dict[tuple[int, int], tuple[float, Split]] = {}

    def at(self, gpus: int, nodes: int) -> float:
        """Progress per second, in iterations at the smallest batch."""
        return self._choose(gpus, nodes)[0]

    def split(self, gpus: int, nodes: int) -> Split:
        """The batch that brings most."""
        return self._choose(gpus, nodes)[1]

    def _choose(self, gpus: int, nodes: int) -> tuple[float, Split]:
        found = self._best.get((gpus, nodes))
        if found is None:
            splits, atomics, passes, scales = _splits(self._limits, gpus)
            seconds = self._steps_s(gpus, nodes, atomics, passes) * self._misfit_near(gpus, nodes)
            gains = np.ones_like(scales) if self._noise is None else self._noise.gain(scales)
            rates = gains / seconds
            best = int(rates.argmax())
            found = self._best[gpus, nodes] = (float(rates[best]), splits[best])
        return found

    def _misfits(self, samples: Sequence[StepSample]) -> dict[tuple[int, int], float]:
        """Measured over modelled step time where the job has run: what was seen outweighs the model."""
        found: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        for s in samples:
            modelled_s = float(self._steps_s(s.gpus, s.nodes, np.array([float(s.atomic)]), np.ones(1))[0])
            found[s.gpus, s.nodes].append(s.step_s / modelled_s)
        return {key: sum(ratios) / len(ratios) for key, ratios in found.items()}

    def _steps_s(self, gpus: int, nodes: int, atomics: Floats, passes: Floats) -> Floats:
        """Seconds of whole iterations; computing and network overlap as the legs of a right triangle."""
        compute_s = self._compute.at(atomics)
        network_s = (self._across_s if nodes > 1 else self._inside_s) * _ring(gpus)
        return (passes - 1) * compute_s + np.sqrt(compute_s**2 + network_s**2)

    def _misfit_near(self, gpus: int, nodes: int) -> float:
        """That of the nearest size it has run, inside one node or across several."""
        near = [(abs(math.log(g / gpus)), g, ratio) for (g, n), ratio in self._misfit.items() if (n > 1) == (nodes > 1)]
        return min(near)[2] if near else 1.0


@lru_cache(maxsize=1 << 14)
def _splits(limits: BatchLimits, gpus: int) -> tuple[tuple[Split, ...], Floats, Floats, Floats]:
    """Splits to choose from, with their atomic sizes, passes and scales as arrays of shape (splits,)."""
    least = min(max(limits.smallest_batch, limits.min_local * gpus), limits.largest_batch)
    totals = np.geomspace(least, limits.largest_batch, BATCHES_TRIED).round().astype(int).tolist()
    splits = tuple(dict.fromkeys(split_batch(limits, batch, gpus) for batch in totals))
    atomics = np.array([split.atomic for split in splits], dtype=np.float64)
    passes = np.array([split.accumulation + 1 for split in splits], dtype=np.float64)
    scales = np.maximum(1.0, np.array([split.batch for split in splits]) / limits.smallest_batch)
    return splits, atomics, passes, scales


@lru_cache(maxsize=1 << 12)
def goodput_of(limits: BatchLimits, samples: tuple[StepSample, ...], noise: GradientNoise | None) -> Goodput:
    """The model for these reports; fitted once, however many ask."""
    return Goodput(limits, samples, noise)


def _fit_compute(samples: Sequence[StepSample], min_local: int) -> _Line:
    """Computing by atomic batch; with one size measured, what is fixed counts as much as the smallest local batch."""
    points = _means((float(sample.atomic), sample.step_s - sample.sync_s) for sample in samples)
    if not points:
        return _Line(0.5, 0.5 / min_local)
    per_sample_s = sum(seconds / (atomic + min_local) for atomic, seconds in points) / len(points)
    if len(points) == 1:
        return _Line(per_sample_s * min_local, per_sample_s)
    assumed = [(float(x), per_sample_s * (x + min_local)) for x in (min_local, ASSUMED_FAR * points[-1][0])]
    return _fit_line(points, assumed)


def _ring(gpus: int) -> float:
    """The part of its data that every GPU sends around a ring, twice; 0 for one GPU."""
    return (gpus - 1) / gpus


def _fit_network(samples: Iterable[StepSample]) -> float | None:
    """Seconds on the network by part of the ring; None without samples."""
    found = [math.sqrt(s.sync_s * (2 * s.step_s - s.sync_s)) / _ring(s.gpus) for s in samples]
    return sum(found) / len(found) if found else None


def _means(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """One point for each x: the mean of its ys."""
    by_x: defaultdict[float, list[float]] = defaultdict(list)
    for x, y in points:
        by_x[x].append(y)
    return [(x, sum(ys) / len(ys)) for x, ys in sorted(by_x.items())]


def _fit_line(points: Sequence[tuple[float, float]], assumed: Sequence[tuple[float, float]]) -> _Line:
    """Least squares of relative errors with both coefficients at least 0, in closed form."""
    rows = [(1.0 / y, x / y, 1.0) for x, y in points] + [(1.0 / y, x / y, ASSUMED_WEIGHT) for x, y in assumed]
    a = sum(w * u * u for u, _, w in rows)
    b = sum(w * u * v for u, v, w in rows)
    c = sum(w * v * v for _, v, w in rows)
    p = sum(w * u for u, _, w in rows)
    q = sum(w * v for _, v, w in rows)
    determinant = a * c - b * b
    base, slope = (c * p - b * q) / determinant, (a * q - b * p) / determinant
    if base < 0:
        return _Line(0.0, q / c)
    if slope < 0:
        return _Line(p / a, 0.0)
    return _Line(base, slope)
