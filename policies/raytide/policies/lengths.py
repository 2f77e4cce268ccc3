"""How much a job has left to do, as well as can be told."""

from __future__ import annotations

import math

from raytide.core import Job, View


def work_left(view: View, job: Job) -> float:
    """Declared work that is left; else by the declared duration; else as much as the job has had up to now.

    The last is what one expects of lengths with a heavy tail: who has run for long will run for long. The unit is that
    of the job's speed model, times seconds.
    """
    declared = job.work_left(view.now)
    if not math.isinf(declared):
        return declared
    attained, speed = job.attained_gpu_s(view.now), view.speed(job).speed
    if job.spec.duration_s is not None:
        left_s = job.spec.duration_s - attained / max(1, job.requested_gpus)
        return max(0.0, left_s) * speed(job.requested_gpus)
    return attained * speed(1)


def work_in_all(view: View, job: Job) -> float:
    """Everything the job has to do, what is done included, by the same rules."""
    if job.spec.work is not None:
        return job.spec.work
    speed = view.speed(job).speed
    if job.spec.duration_s is not None:
        return job.spec.duration_s * speed(job.requested_gpus)
    return 2 * job.attained_gpu_s(view.now) * speed(1)
