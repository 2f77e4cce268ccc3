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
        self.log: list[str] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def after(self, delay_s: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + delay_s, next(self._order), callback))

    def between(self, low_s: float, high_s: float) -> float:
        return self.rng.uniform(low_s, high_s)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def say(self, who: str, what: object) -> None:
        self.log.append(f"{self.now:8.3f} {who:>7}  {what}")

    def step(self) -> bool:
        """Run the next callback; False when nothing is left."""
        if not self._heap:
            return False
        self.now, _, callback = heapq.heappop(self._heap)
        callback()
        return True
