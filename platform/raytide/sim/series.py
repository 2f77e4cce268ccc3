"""Step functions of time: what counts are between two instants, and their exact integrals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """A step function: ``value[i]`` from ``time_s[i]`` to the next, the last for ever, 0 before the first.

    Attributes:
        time_s: Ascending; of equal ones the last counts.
        value: As many.
    """

    time_s: Floats
    value: Floats

    @classmethod
    def of(cls, time_s: Sequence[float], value: ArrayLike) -> Steps:
        """From sequences of any numbers."""
        return cls(np.asarray(time_s, dtype=np.float64), np.asarray(value, dtype=np.float64))

    @classmethod
    def of_changes(cls, time_s: Sequence[float], change: ArrayLike) -> Steps:
        """From what is added at each instant."""
        return cls.of(time_s, np.cumsum(np.asarray(change, dtype=np.float64)))

    @cached_property
    def _before(self) -> Floats:
        """The integral up to each instant."""
        areas = self.value[:-1] * np.diff(self.time_s)
        return np.concatenate([np.zeros(min(1, len(self.value))), np.cumsum(areas)])

    def at(self, time_s: ArrayLike) -> Floats:
        """Values at these times."""
        if not len(self.time_s):
            return np.zeros(np.shape(time_s))
        place = np.searchsorted(self.time_s, time_s, side="right") - 1
        return np.where(place < 0, 0.0, self.value[np.maximum(place, 0)])

    def integral(self, until_s: ArrayLike) -> Floats:
        """The area below it from the first instant up to these times."""
        if not len(self.time_s):
            return np.zeros(np.shape(until_s))
        place = np.maximum(np.searchsorted(self.time_s, until_s, side="right") - 1, 0)
        beyond_s = np.maximum(np.asarray(until_s) - self.time_s[place], 0.0)
        return np.asarray(self._before[place] + self.value[place] * beyond_s)

    def area(self, start_s: float, end_s: float) -> float:
        """The area below it between two times."""
        start, end = self.integral([start_s, end_s])
        return float(end - start)

    def means(self, edges_s: Floats) -> Floats:
        """The mean between each two neighbouring edges, which must differ."""
        return np.diff(self.integral(edges_s)) / np.diff(edges_s)

    def reached_s(self, area: Floats) -> Floats:
        """When the integral of a function without negative values reaches each area; infinite if it never does."""
        place = np.clip(np.searchsorted(self._before, area, side="left") - 1, 0, None)
        slope = self.value[place]
        with np.errstate(divide="ignore", invalid="ignore"):
            after_s = np.where(slope > 0, (area - self._before[place]) / slope, np.inf)
        return np.asarray(np.where(area <= 0, self.time_s[0], self.time_s[place] + after_s))
