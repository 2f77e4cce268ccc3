"""How fast one replica's steps go."""

from __future__ import annotations

import statistics
import time
from collections import deque


class Pace:
    """Measures applied steps.

    Attributes:
        busy_s: Seconds per step without waiting for peers or for data, over the last steps.
        steps_measured: How many steps were measured since the loop began.
        batch: Samples of the largest step so far, of the whole job: the last one of an epoch may be smaller.
    """

    def __init__(self) -> None:
        self.busy_s: deque[float] = deque(maxlen=32)
        self.steps_measured = 0
        self.batch = 0
        self._durations_s: deque[float] = deque(maxlen=16)
        self._samples: deque[int] = deque(maxlen=16)
        self._usual_step_s = 0.0
        self._last_commit_s = 0.0
        self._steady = False
        self._waited_s = 0.0
        self._began_s = 0.0

    def step_begins(self, waited_s: float) -> None:
        """A step begins; ``waited_s`` is how long the loop has waited for others so far."""
        self._waited_s = waited_s
        self._began_s = time.perf_counter()

    def step_ends(self, waited_s: float) -> None:
        """The loop is behind a step that was applied."""
        waited_in_step_s = waited_s - self._waited_s
        self.busy_s.append(max(0.0, time.perf_counter() - self._began_s - waited_in_step_s))
        self.steps_measured += 1

    def applied(self, samples: int) -> None:
        """A step of so many samples of the whole job was applied."""
        now_s = time.perf_counter()
        self.batch = max(self.batch, samples)
        if self._last_commit_s and self._steady:
            self._durations_s.append(now_s - self._last_commit_s)
            self._samples.append(samples)
        self._steady = True
        self._last_commit_s = now_s

    def membership_changed(self) -> None:
        """Figures of another membership say nothing about this one."""
        self._usual_step_s = self.step_s or self._usual_step_s
        self._durations_s.clear()
        self._samples.clear()
        self._steady = False

    def pause_s(self) -> float:
        """Time since the last applied step beyond what a step usually takes; 0 before the first one."""
        if not self._last_commit_s:
            return 0.0
        return max(0.0, time.perf_counter() - self._last_commit_s - self._usual_step_s)

    @property
    def step_s(self) -> float:
        """Seconds from one applied step to the next in this membership, 0 while unknown."""
        durations_s = list(self._durations_s)
        return statistics.median(durations_s) if durations_s else 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples of the whole job per second, over the last steps of this membership."""
        durations_s, samples = list(self._durations_s), list(self._samples)
        return sum(samples) / sum(durations_s) if durations_s else 0.0
