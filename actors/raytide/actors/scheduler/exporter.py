"""Gives the platform's metrics to Ray, which serves them to Prometheus on every node."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable

from raytide.actors.metrics import instrument
from raytide.actors.scheduler.info import PlatformInfo
from raytide.actors.scheduler.metrics import readings

logger = logging.getLogger(__name__)

EXPORT_S = 2.0
"""Ray drops a gauge that was not set for two of its own reports, 10 s each by default."""

_Key = tuple[str, tuple[tuple[str, str], ...]]


class Exporter:
    """Sets the gauges, and counts what happened since it last did.

    Args:
        info: Asks the platform.
        ticks: What its decisions took, in seconds; they are taken out.
    """

    def __init__(self, info: Callable[[], PlatformInfo], ticks: deque[float]) -> None:
        self._info = info
        self._ticks = ticks
        self._set: set[_Key] = set()
        self._resizes: dict[str, int] | None = None

    def run(self) -> None:
        """Export for ever; for a thread of its own."""
        while True:
            try:
                self.step()
            except Exception:  # the thread's edge: without metrics the platform still schedules
                logger.exception("metrics")
            time.sleep(EXPORT_S)

    def step(self) -> None:
        """Export once."""
        info = self._info()
        self._set_gauges(info)
        self._count_resizes(info)
        while self._ticks:
            instrument("raytide_tick_seconds").observe(self._ticks.popleft())

    def _set_gauges(self, info: PlatformInfo) -> None:
        present: set[_Key] = set()
        for reading in readings(info, time.time()):
            instrument(reading.name).set(float(reading.value), dict(reading.tags))
            present.add((reading.name, reading.tags))
        for name, tags in self._set - present:  # a job that ended holds nothing, however long Ray remembers it
            instrument(name).set(0.0, dict(tags))
        self._set = present

    def _count_resizes(self, info: PlatformInfo) -> None:
        now = {job.job: job.resizes for job in info.jobs}
        before = now if self._resizes is None else self._resizes  # a scheduler before this one has counted those
        more: Counter[str] = Counter()
        for job in info.jobs:
            more[job.tenant] += max(0, job.resizes - before.get(job.job, 0))
        for tenant, count in more.items():
            if count:
                instrument("raytide_resizes").inc(count, {"tenant": tenant})
        self._resizes = now
