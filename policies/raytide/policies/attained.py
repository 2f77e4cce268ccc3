"""When jobs have attained so much service: GPUs times seconds that they held, progress or not."""

from __future__ import annotations

from raytide.core import Job

_ROUNDING_GPU_S = 1e-4
"""The instant at which a limit is reached is computed in floating point: at it, this much may be missing."""


def has_attained(job: Job, now: float, limit_gpu_s: float) -> bool:
    """Whether the job has had as much as the limit."""
    return job.attained_gpu_s(now) > limit_gpu_s - _ROUNDING_GPU_S


def attains_at_s(job: Job, now: float, limit_gpu_s: float, gpus: int) -> float:
    """When it will have, if it holds so many GPUs from now on."""
    return now + (limit_gpu_s - job.attained_gpu_s(now)) / gpus
