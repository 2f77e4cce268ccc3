"""How many GPUs are free at every instant from now on, while a policy plans ahead."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

_ROUNDING_S = 1e-6
"""Instants that are as close as this are one."""


class FreeTime:
    """Free GPUs over time: constant between breakpoints, and after the last one.

    Args:
        now: The first instant.
        gpus: Free from then on.
    """

    def __init__(self, now: float, gpus: int) -> None:
        self._times = [now]
        self._free = [gpus]

    def copy(self) -> FreeTime:
        """Another one that is the same for now."""
        other = FreeTime(0.0, 0)
        other._times, other._free = self._times.copy(), self._free.copy()
        return other

    def take(self, start_s: float, end_s: float, gpus: int) -> None:
        """These are used in that time; a negative number gives them back."""
        first, last = self._cut(start_s), self._cut(end_s)
        for index in range(first, last):
            self._free[index] -= gpus

    def _cut(self, at_s: float) -> int:
        index = bisect_left(self._times, at_s - _ROUNDING_S)
        if at_s < math.inf and (index == len(self._times) or self._times[index] > at_s + _ROUNDING_S):
            self._times.insert(index, at_s)
            self._free.insert(index, self._free[index - 1])
        return index

    @property
    def least(self) -> int:
        """The least that is ever free."""
        return min(self._free)

    def at(self, at_s: float) -> int:
        """Free at this instant."""
        return self._free[bisect_right(self._times, at_s) - 1]

    def stretches(self) -> Iterator[tuple[float, float, int]]:
        """Start, end and free GPUs, in order; the last one never ends."""
        free = self._free
        start_s = self._times[0]
        for index in range(1, len(free)):
            if free[index] != free[index - 1]:
                yield start_s, self._times[index], free[index - 1]
                start_s = self._times[index]
        yield start_s, math.inf, free[-1]

    def until(self, start_s: float, gpus: int) -> float:
        """Up to when so many are free without a gap."""
        for index in range(bisect_right(self._times, start_s) - 1, len(self._free)):
            if self._free[index] < gpus:
                return max(start_s, self._times[index])
        return math.inf
