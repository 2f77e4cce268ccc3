"""How simulated jobs make progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from raytide.core import Placement
from raytide.core.events import Event


class Workload(Protocol):
    """One job's work. Only the simulator calls it, in the order of time.

    Attributes:
        reports: It has something to tell its scheduler while it runs.
        report_s: When it will tell next by itself; it may be asked at any time.
    """

    @property
    def reports(self) -> bool: ...

    @property
    def report_s(self) -> float: ...

    def run(self, now: float, placement: Placement, delay_s: float) -> None:
        """From now on it runs there; progress begins after ``delay_s``."""
        ...

    def pause(self, now: float) -> None:
        """From now on it holds nothing."""
        ...

    def finish_s(self) -> float:
        """When it will be done if nothing changes; infinite while it is paused."""
        ...

    def report(self, now: float) -> Event | None:
        """What it tells its scheduler at this instant; asked only if it reports."""
        ...


class Fixed:
    """A job of known work at speeds that depend on where it runs.

    Args:
        work: Seconds at speed 1.
        speed: Speed of a placement; 1 for every one by default, as rigid traces have it.
    """

    reports = False
    report_s = math.inf
    __slots__ = ("_from_s", "_rate", "_speed", "left")

    def __init__(self, work: float, speed: Callable[[Placement], float] | None = None) -> None:
        self.left = work
        self._speed = speed
        self._rate = 0.0
        self._from_s = 0.0

    def run(self, now: float, placement: Placement, delay_s: float) -> None:
        self.pause(now)
        self._rate = 1.0 if self._speed is None else self._speed(placement)
        self._from_s = now + delay_s

    def pause(self, now: float) -> None:
        self.left -= self._rate * max(0.0, now - self._from_s)
        self._rate = 0.0

    def finish_s(self) -> float:
        return self._from_s + self.left / self._rate if self._rate else math.inf

    def report(self, now: float) -> Event | None:
        return None
