"""``profile``: throughput at every size of one running job.

Starts at the largest size and walks down, because leaving costs a job next to nothing (EDL's order).
"""

from __future__ import annotations

import time
from typing import Protocol

from raytide.actors.views import JobView, Profile
from raytide.elastic.effects import Answer
from raytide.errors import RequestRefused

_POLL_S = 0.1
_START_LIMIT_S = 120.0
_LIMIT_FACTOR = 20.0
"""A size whose steps are too slow for its window gets this many windows before it is given up."""

MIN_STEPS = 3


class Resizable(Protocol):
    """What profiling needs of a job."""

    def view(self) -> JobView: ...
    def scale_out(self, request: str, count: int) -> Answer: ...
    def scale_in(self, request: str, count: int) -> Answer: ...


def measure_profile(job: Resizable, request: str, least: int, most: int, window_s: float) -> list[Profile]:
    """Measure the sizes ``most`` down to ``least``; the job keeps the last one.

    Raises:
        RequestRefused: A size is outside the job's bounds, or no slot is free for it.
    """
    if not 1 <= least <= most:
        raise RequestRefused(f"profile({least}, {most}): give 1 <= least <= most")
    now = _wait_for_members(job)
    if most > now:
        job.scale_out(f"{request}-out", most - now)
    elif most < now:
        job.scale_in(f"{request}-in", now - most)
    profiles = []
    for size in range(most, least - 1, -1):
        if size < most:
            job.scale_in(f"{request}-{size}", 1)
        profiles.append(_measure(job, size, window_s))
    return profiles


def _wait_for_members(job: Resizable) -> int:
    """The job's size: one that just starts has none yet."""
    deadline_s = time.monotonic() + _START_LIMIT_S
    while not (view := job.view()).world_size:
        if view.ended or view.phase == "suspended" or time.monotonic() > deadline_s:
            raise RequestRefused(f"job {view.name} is {view.phase}: there is nothing to profile")
        time.sleep(_POLL_S)
    return view.world_size


def _measure(job: Resizable, size: int, window_s: float) -> Profile:
    started_s, first = time.monotonic(), job.view()
    while True:
        time.sleep(_POLL_S)
        elapsed_s = time.monotonic() - started_s
        view = job.view()
        steps = view.step - first.step
        if view.ended:
            raise RequestRefused(f"the job {view.phase} while it was profiled at {size} replicas")
        if elapsed_s >= window_s and steps >= MIN_STEPS and view.step_s > 0.0:
            return Profile(size, view.step_s, view.samples_per_s, steps)
        if elapsed_s > _LIMIT_FACTOR * window_s:
            raise RequestRefused(f"{steps} steps in {elapsed_s:.0f} s at {size} replicas: use a longer window")
