"""Stragglers: replicas persistently slower than the median, waiting for data and peers not counted.

The published description of EDL names the rule, not its numbers; these were chosen so that noise of a
shared machine does not trigger it: 1.5 times the median of the others, in every report over 5 seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from raytide.elastic.messages import Heartbeat
from raytide.elastic.model import ReplicaId


@dataclass(frozen=True)
class StragglerRule:
    """When a replica counts as a straggler.

    Attributes:
        ratio: Its busy time per step is above this many times the median of the others.
        persist_s: For this long, without a break.
        min_steps: After this many measured steps.
    """

    ratio: float = 1.5
    persist_s: float = 5.0
    min_steps: int = 10


class StragglerDetector:
    """Watches heartbeats of one job."""

    def __init__(self, rule: StragglerRule | None = None) -> None:
        self._rule = rule or StragglerRule()
        self._busy_s: dict[ReplicaId, float] = {}
        self._since_s: dict[ReplicaId, float] = {}
        self._reported: set[ReplicaId] = set()

    def busy_s(self, replica: ReplicaId) -> float:
        """Busy seconds per step as last reported."""
        return self._busy_s.get(replica, 0.0)

    def feed(
        self, now: float, replica: ReplicaId, beat: Heartbeat, members: Sequence[ReplicaId]
    ) -> list[tuple[ReplicaId, float]]:
        """Take a heartbeat; returns the replica with its ratio when it has just become a straggler."""
        if beat.steps_measured < self._rule.min_steps:
            return []
        self._busy_s[replica] = beat.busy_s
        others = [self._busy_s[m] for m in members if m != replica and m in self._busy_s]
        median_s = statistics.median(others) if others else 0.0
        if median_s <= 0.0 or beat.busy_s <= self._rule.ratio * median_s:
            self._since_s.pop(replica, None)
            self._reported.discard(replica)
            return []
        since_s = self._since_s.setdefault(replica, now)
        if now - since_s < self._rule.persist_s or replica in self._reported:
            return []
        self._reported.add(replica)
        return [(replica, beat.busy_s / median_s)]
