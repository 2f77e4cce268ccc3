"""How much a job has left to do, as well as can be told."""

from __future__ import annotations

import math

from raytide.core import Job, View


def duration_left_s(job: Job, now: float) -> float:
    """What is left of a declared duration, at the size that was requested; infinite if none was declared."""
    if job.spec.duration_s is None:
        return math.inf
    return max(0.0, job.spec.duration_s - job.attained_gpu_s(now) / max(1, job.requested_gpus))


def declared_left(view: View, job: Job) -> float:
    """Declared work that is left; else by the declared duration; infinite if neither was declared.

    The unit is that of the job's speed model, times seconds.
    """
    if job.spec.work is not None:
        return job.work_left(view.now)
    return duration_left_s(job, view.now) * view.speed(job).speed(max(1, job.requested_gpus))


def work_left(view: View, job: Job) -> float:
    """What was declared and is left; else as much as the job has had up to now.

    The latter is what one expects of lengths with a heavy tail: who has run for long will run for long.
    """
    declared = declared_left(view, job)
    return declared if math.isfinite(declared) else job.attained_gpu_s(view.now) * view.speed(job).speed(1)


def work_in_all(view: View, job: Job) -> float:
    """Everything the job has to do, what is done included, by the same rules."""
    if job.spec.work is not None:
        return job.spec.work
    speed = view.speed(job).speed
    if job.spec.duration_s is not None:
        return job.spec.duration_s * speed(job.requested_gpus)
    return 2 * job.attained_gpu_s(view.now) * speed(1)
