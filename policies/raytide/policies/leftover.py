"""What jobs without a promise get: the GPUs that the plans of others leave."""

from __future__ import annotations

import math
from collections.abc import Sequence

from raytide.policies.allotment import Size, Task
from raytide.policies.free_time import FreeTime

_LEAST_STAY = 2.0
"""A job starts where it can stay for so many times the cost of its start."""


def share_rest(tasks: Sequence[Task], free: FreeTime) -> dict[str, Size | None]:
    """Sizes of jobs that nothing is promised to: in turn what they hold or asked for, then in turn what else is free.

    Args:
        tasks: Who is served first comes first.
        free: What others leave; what is given is taken from it.
    """
    chosen: dict[str, Size | None] = {}
    for task in tasks:
        room = free.at(task.now)
        chosen[task.job.job] = size = task.held if task.held and task.held.gpus <= room else _start(task, free)
        if size is not None:
            free.take(task.now, math.inf, size.gpus)
    for task in tasks:
        size = chosen[task.job.job]
        if size is None or not task.job.spec.preemptible:
            continue
        free.take(task.now, math.inf, -size.gpus)
        chosen[task.job.job] = size = _grown(task, size, free)
        free.take(task.now, math.inf, size.gpus)
    return chosen


def _start(task: Task, free: FreeTime) -> Size | None:
    asked = [size for size in task.sizes if size.gpus <= max(task.job.requested_gpus, task.sizes[0].gpus)]
    return next((size for size in reversed(asked) if _can_stay(task, size, free)), None)


def _grown(task: Task, size: Size, free: FreeTime) -> Size:
    """The largest size that is worth its change."""
    for larger in reversed(task.sizes):
        saved_s = task.left * (1.0 / size.speed - 1.0 / larger.speed)
        if larger.gpus > size.gpus and saved_s > task.change_s and _can_stay(task, larger, free):
            return larger
    return size


def _can_stay(task: Task, size: Size, free: FreeTime) -> bool:
    """Whether there is room long enough: to the end, if the job cannot be preempted."""
    end_s = task.now + task.change_s + task.left / size.speed
    stay_s = end_s if not task.job.spec.preemptible else min(end_s, task.now + _LEAST_STAY * task.change_s)
    return free.at(task.now) >= size.gpus and free.until(task.now, size.gpus) >= stay_s
