"""One row per job."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from raytide.core import Job, JobState
from raytide.sim.report.rho import fair_ends_s
from raytide.sim.series import Floats
from raytide.sim.simulation import SimResult

SLOWDOWN_BOUND_S = 10.0
"""A job that runs shorter counts as one of this length, so that the shortest do not make the mean."""


def job_table(result: SimResult) -> pd.DataFrame:
    """What became of every job, in the order of submission; times in seconds, empty (NaN) where they do not exist.

    Columns: ``job``, ``tenant``, ``gpus`` (requested), ``submit_s``, ``first_start_s``, ``end_s``, ``jct_s`` (from
    submission to end), ``queue_s`` (of that, without GPUs: before the first start and while preempted), ``run_s`` (with
    GPUs), ``gpu_s`` (GPU seconds held), ``lost_s`` and ``lost_gpu_s`` (of those, without progress: starts and resizes),
    ``resizes`` (changes while it ran), ``suspensions``, ``state``, ``deadline_s``, ``met`` (succeeded in time; empty
    without a deadline), ``bounded_slowdown`` (the JCT over the declared duration, which counts as at least
    :data:`SLOWDOWN_BOUND_S`; at least 1), ``rho`` (finish-time fairness, see :mod:`raytide.sim.report.rho`),
    ``reason`` (why it is in this state). JCT, slowdown and rho are those of jobs that succeeded.
    """
    frame = pd.DataFrame([_row(job, result) for job in result.jobs], columns=list(_COLUMNS)).astype(_COLUMNS)
    frame["rho"] = _rho(result)
    return frame


_COLUMNS = {
    "job": "str",
    "tenant": "str",
    "gpus": "int64",
    "submit_s": "float64",
    "first_start_s": "float64",
    "end_s": "float64",
    "jct_s": "float64",
    "queue_s": "float64",
    "run_s": "float64",
    "gpu_s": "float64",
    "lost_s": "float64",
    "lost_gpu_s": "float64",
    "resizes": "int64",
    "suspensions": "int64",
    "state": "str",
    "deadline_s": "float64",
    "met": "boolean",
    "bounded_slowdown": "float64",
    "rho": "float64",
    "reason": "str",
}


def _row(job: Job, result: SimResult) -> dict[str, object]:
    until_s = _until_s(job, result)
    jct_s = until_s - job.spec.submitted_s if job.state is JobState.SUCCEEDED else math.nan
    return {
        "job": job.job,
        "tenant": job.spec.tenant,
        "gpus": job.requested_gpus,
        "submit_s": job.spec.submitted_s,
        "first_start_s": job.first_start_s,
        "end_s": job.ended_s,
        "jct_s": jct_s,
        "queue_s": until_s - job.spec.submitted_s - job.run_s(until_s),
        "run_s": job.run_s(until_s),
        "gpu_s": job.attained_gpu_s(until_s),
        "lost_s": result.ledger.lost_s.get(job.job, 0.0),
        "lost_gpu_s": result.ledger.lost_gpu_s.get(job.job, 0.0),
        "resizes": job.resizes,
        "suspensions": job.suspensions,
        "state": str(job.state),
        "deadline_s": job.spec.deadline_s,
        "met": _met(job),
        "bounded_slowdown": _slowdown(job, jct_s, until_s),
        "reason": job.reason,
    }


def _until_s(job: Job, result: SimResult) -> float:
    """Its end, or that of the simulation if it is still there."""
    return result.timeline.time_s[-1] if job.ended_s is None else job.ended_s


def _met(job: Job) -> bool | None:
    if job.spec.deadline_s is None:
        return None
    return job.state is JobState.SUCCEEDED and job.ended_s is not None and job.ended_s <= job.spec.deadline_s


def _slowdown(job: Job, jct_s: float, until_s: float) -> float:
    declared_s = job.run_s(until_s) if job.spec.duration_s is None else job.spec.duration_s
    return jct_s if math.isnan(jct_s) else max(1.0, jct_s / max(declared_s, SLOWDOWN_BOUND_S))


def _rho(result: SimResult) -> Floats:
    """NaN for jobs that did not succeed, or never said how long they run."""
    known = [i for i, job in enumerate(result.jobs) if job.state is JobState.SUCCEEDED and job.spec.duration_s]
    jobs = [result.jobs[i] for i in known]
    submit_s = np.array([job.spec.submitted_s for job in jobs])
    jct_s = np.array([job.ended_s for job in jobs], dtype=np.float64) - submit_s
    rho = np.full(len(result.jobs), np.nan)
    rho[known] = jct_s / (result.costs.start_s + fair_ends_s(result, jobs) - submit_s)
    return rho
