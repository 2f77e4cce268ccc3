"""How fast a job would be at each size, and how much of it is left, as far as its scheduler can know."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from raytide.core import Job, Measurement, SpeedModel, View, fit_curve
from raytide.policies.lengths import duration_left_s

Floats = NDArray[np.float64]

GROWTH = 4
"""A job is given at most this many times the GPUs it was ever measured with: beyond, a model is a guess."""

UNKNOWN_EXPONENT = 0.9
"""Speed of a job that nothing is known of: its size to this power."""


class Curve:
    """Speeds of one job.

    Attributes:
        sizes: Numbers of GPUs it can be given, ascending; shape (sizes,).
        rates: Work per second at each, on as few nodes as possible; shape (sizes,).
        least: The smallest size.
        most: The largest.
        fastest: The highest rate.
    """

    __slots__ = ("_rates", "_sizes", "fastest", "least", "most", "rates", "sizes")

    def __init__(self, sizes: Sequence[int], rates: Sequence[float]) -> None:
        self._sizes, self._rates = sizes, rates
        self.sizes, self.rates = np.array(sizes, dtype=np.float64), np.array(rates)
        self.least, self.most, self.fastest = sizes[0], sizes[-1], max(rates)

    def rate(self, gpus: float) -> float:
        """Linear between sizes, in proportion below the smallest, constant above the largest."""
        if gpus >= self.most:
            return self._rates[-1]
        if gpus <= self.least:
            return self._rates[0] * gpus / self.least
        above = bisect_left(self._sizes, gpus)
        low, high = self._sizes[above - 1], self._sizes[above]
        part = (gpus - low) / (high - low)
        return self._rates[above - 1] * (1.0 - part) + self._rates[above] * part


class Curves:
    """Curves by job, kept as long as nothing new was reported."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, int, Curve]] = {}

    def forget(self, job: Job) -> None:
        """The job is over."""
        self._kept.pop(job.job, None)

    def of(self, view: View, job: Job, gpus_per_node: int) -> Curve:
        """What is known of a job now."""
        training = job.training
        learned: object = (training.samples, training.noise) if job.spec.batch is not None else len(job.measured)
        known = (learned, job.spec.roles)  # its owner may change its bounds
        kept = self._kept.get(job.job)
        if kept is None or kept[:2] != (known, view.total_gpus):
            kept = self._kept[job.job] = (known, view.total_gpus, _curve(view, job, gpus_per_node))
        return kept[2]


def _curve(view: View, job: Job, gpus_per_node: int) -> Curve:
    sizes = _sizes(view, job, gpus_per_node)
    rate = _rate(view, job)
    return Curve(sizes, [rate(gpus, -(-gpus // gpus_per_node)) for gpus in sizes])


def _sizes(view: View, job: Job, gpus_per_node: int) -> list[int]:
    """Sizes to choose from, in GPUs."""
    if not job.spec.is_elastic:
        return [job.requested_gpus]
    first = job.spec.roles[0]
    least, most = first.least, min(first.most, view.total_gpus // max(first.gpus, 1))
    if job.spec.batch is not None:
        # Before its first report a job is tried inside one node; nobody knows what more would be good for.
        tried = GROWTH * job.training.most_gpus or min(gpus_per_node, job.requested_gpus)
        most = min(most, max(tried, least))
    return [count * first.gpus for count in range(least, max(most, least) + 1)]


def _rate(view: View, job: Job) -> Callable[[int, int], float]:
    if job.spec.batch is not None:
        return view.goodput(job).at if job.training.samples else _unknown
    if job.spec.model in view.speeds:
        return view.speed(job).speed
    if any(speed > 0 for speed in job.measured.values()):
        return _measured(job).speed
    return _unknown


def _unknown(gpus: int, _nodes: int) -> float:
    return float(gpus**UNKNOWN_EXPONENT)


def _measured(job: Job) -> SpeedModel:
    """A curve through what the job reported; its nodes are not known, so one is assumed."""
    return fit_curve(
        Measurement(job.spec.gpus(shape), 1, 1.0 / speed) for shape, speed in job.measured.items() if speed > 0
    )


def work_left(view: View, job: Job, curve: Curve) -> float | None:
    """What is left of a job in the unit of its curve times seconds; None if nobody declared or measured it."""
    training = job.training
    if job.spec.batch is not None:
        if job.spec.work is None or not training.epochs:
            return None
        return max(job.spec.work - training.epochs, 0.0) * training.iterations / training.epochs
    if job.spec.work is not None and (job.measured or job.spec.model in view.speeds):
        return job.work_left(view.now)
    if job.spec.duration_s is None:
        return None
    return duration_left_s(job, view.now) * curve.rate(job.requested_gpus)
