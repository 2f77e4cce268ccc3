"""Guarded calls since a step began, counted in the order of the program.

A replica that takes over the state of a more advanced one goes on where its own program stands. Calls that the
received state already contains must not act again there; the counts tell which they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

Counts = tuple[int, Mapping[str, int]]
"""The step that began last, and how often each call was made since then."""


class GuardedCalls:
    """Counts the calls of one replica."""

    def __init__(self) -> None:
        self._begun = -1
        self._counts: Counter[str] = Counter()
        self._contained: Mapping[str, int] | None = {}

    def begin_step(self, step: int) -> None:
        """A step begins at a boundary: whatever was called before is in the state."""
        self._begun, self._counts, self._contained = step, Counter(), {}

    def count(self, key: str) -> int:
        """Count a call; returns its number since the step began."""
        self._counts[key] += 1
        return self._counts[key] - 1

    def contains(self, key: str, number: int) -> bool:
        """Whether the state received from a member has the effect of that call already."""
        return self._contained is None or number < self._contained.get(key, 0)

    def counts(self) -> Counts:
        """What a state that is sent now contains."""
        return self._begun, dict(self._counts)

    def received(self, counts: Counts) -> None:
        """A state with these counts was received: from a later step, it contains all calls up to there."""
        begun, calls = counts
        if self._begun >= 0:
            self._contained = calls if begun == self._begun else None
