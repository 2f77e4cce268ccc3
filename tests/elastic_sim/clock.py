"""Virtual time, seeded randomness and the log of one history."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count


class ProtocolViolation(AssertionError):
    """Something happened that the protocol promises never to let happen."""


class Clock:
    """Runs callbacks in the order of their virtual time; equal times in the order of their planning."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.rng = random.Random(seed)
        self._log: list[tuple[float, str, tuple[object, ...]]] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def after(self, delay_s: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + delay_s, next(self._order), callback))

    def between(self, low_s: float, high_s: float) -> float:
        return self.rng.uniform(low_s, high_s)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def say(self, who: str, *what: object) -> None:
        self._log.append((self.now, who, what))

    def log(self) -> list[str]:
        """The history so far, one line per event; put into words only when somebody wants to read it."""
        return [f"{at:8.3f} {who:>7}  {' '.join(map(str, what))}" for at, who, what in self._log]

    def step(self) -> bool:
        """Run the next callback; False when nothing is left."""
        if not self._heap:
            return False
        self.now, _, callback = heapq.heappop(self._heap)
        callback()
        return True
