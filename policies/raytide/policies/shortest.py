"""Shortest first, by remaining time (``srtf``) or by remaining GPU time (``srgf``).

Rule: at every event, sort all jobs by what is left of them and give each what it requested while there are GPUs; who
does not fit is skipped, who ran and is not chosen is preempted.
Limits: needs declared durations (a job without one goes last) and free preemption.
Starvation: possible; long jobs wait while shorter ones keep coming.
"""

from __future__ import annotations

from collections.abc import Callable

from raytide.core import Decision, EventDriven, Job, View
from raytide.policies.budget import needs, walk


def remaining_s(job: Job, now: float) -> float:
    """Declared duration less the time it has run."""
    declared = job.spec.duration_s
    return float("inf") if declared is None else declared - job.run_s(now)


def remaining_gpu_s(job: Job, now: float) -> float:
    """Remaining time on the GPUs it requested."""
    return remaining_s(job, now) * job.requested_gpus


class _Shortest:
    clock = EventDriven()

    def __init__(self, name: str, left: Callable[[Job, float], float]) -> None:
        self.name = name
        self._left = left

    def decide(self, view: View) -> Decision:
        """Walk from the shortest to the longest."""
        now, left = view.now, self._left
        return walk(view, sorted(view, key=lambda job: (left(job, now), job.seniority)))

    def why_waiting(self, view: View, job: Job) -> str:
        """How many shorter ones there are, and what is missing."""
        mine = self._left(job, view.now)
        shorter = sum(1 for other in view if self._left(other, view.now) < mine)
        return f"{shorter} jobs have less left to do: {needs(view, job)}"


class Srtf(_Shortest):
    """Shortest remaining time first."""

    def __init__(self) -> None:
        super().__init__("srtf", remaining_s)


class Srgf(_Shortest):
    """Shortest remaining GPU time first."""

    def __init__(self) -> None:
        super().__init__("srgf", remaining_gpu_s)
