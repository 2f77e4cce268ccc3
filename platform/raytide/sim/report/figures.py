"""The figures of a simulation, by which policies are compared."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from raytide.sim.report.tenants import tenant_table
from raytide.sim.report.window import Window
from raytide.sim.series import Steps
from raytide.sim.simulation import SimResult

CLASSES = {"1 GPU": (1, 1), "2 to 8 GPUs": (2, 8), "more than 8 GPUs": (9, math.inf)}
"""Classes of jobs by the GPUs they request, from and to."""


def summary(result: SimResult, jobs: pd.DataFrame) -> dict[str, Any]:
    """All figures; None where one does not exist (deadlines met without deadlines), ready for JSON.

    The window of figures about the cluster is the time from the first submission to the last end, its GPU seconds are
    those of all GPUs that were there.

    * ``jobs``, ``succeeded``, ``refused``, ``unfinished`` (neither over nor ever going to be).
    * ``mean_jct_s``, ``median_jct_s``, ``p95_jct_s``, ``p99_jct_s``, ``mean_queueing_s``, ``mean_bounded_slowdown``,
      ``max_rho``, ``mean_rho``: of jobs that succeeded, from the columns of the job table.
    * ``makespan_s``: length of the window.
    * ``deadlines_met``: of all jobs with a deadline, refused ones too, the share that succeeded in time.
    * ``gpu_hours``: held.
    * ``allocated_utilisation`` (also as ``utilisation``): GPU seconds held, over those of the window.
    * ``useful_utilisation``: the same, less GPU seconds that starts and resizes used up.
    * ``resize_seconds``: seconds in which jobs held GPUs without progress, summed over starts and resizes of all jobs.
    * ``resizes_per_job``, ``suspensions_per_job``: means over all jobs that were not refused.
    * ``fragmentation``: of the GPU seconds in which some job waited, the share that was free on partly used nodes.
    * ``classes``: by :data:`CLASSES`, ``jobs``, ``mean_jct_s``, ``median_jct_s``, ``mean_queueing_s``.
    * ``tenants``: :func:`~raytide.sim.report.tenants.tenant_table`, by tenant.

    Args:
        result: The simulation.
        jobs: Its :func:`~raytide.sim.report.jobs.job_table`.
    """
    figures = {**_counts(jobs), **_times(jobs), **_cluster(result, jobs), **_changes(jobs)}
    return {
        **{name: _plain(value) for name, value in figures.items()},
        "classes": _classes(jobs),
        "tenants": _records(tenant_table(result, jobs).set_index("tenant")),
    }


def _counts(jobs: pd.DataFrame) -> dict[str, int]:
    states = jobs["state"].value_counts()
    return {
        "jobs": len(jobs),
        "succeeded": int(states.get("succeeded", 0)),
        "refused": int(states.get("refused", 0)),
        "unfinished": int(jobs["end_s"].isna().sum()),
    }


def _times(jobs: pd.DataFrame) -> dict[str, float]:
    done = jobs[jobs["state"] == "succeeded"]
    due = jobs[jobs["met"].notna()]
    return {
        "mean_jct_s": done["jct_s"].mean(),
        "median_jct_s": done["jct_s"].median(),
        "p95_jct_s": done["jct_s"].quantile(0.95),
        "p99_jct_s": done["jct_s"].quantile(0.99),
        "mean_queueing_s": done["queue_s"].mean(),
        "mean_bounded_slowdown": done["bounded_slowdown"].mean(),
        "max_rho": done["rho"].max(),
        "mean_rho": done["rho"].mean(),
        "deadlines_met": float(due["met"].astype("float64").mean()),
    }


def _cluster(result: SimResult, jobs: pd.DataFrame) -> dict[str, float]:
    window = Window.of(result)
    held_gpu_s, lost_gpu_s = float(jobs["gpu_s"].sum()), float(jobs["lost_gpu_s"].sum())
    return {
        "makespan_s": window.span_s or math.nan,
        "gpu_hours": held_gpu_s / 3600,
        "utilisation": window.share(held_gpu_s),
        "allocated_utilisation": window.share(held_gpu_s),
        "useful_utilisation": window.share(held_gpu_s - lost_gpu_s),
        "fragmentation": _fragmentation(result, window),
    }


def _fragmentation(result: SimResult, window: Window) -> float:
    """0 if nobody ever waits."""
    timeline = result.timeline
    is_waiting = [waiting > 0 for waiting in timeline.waiting]
    contended = [gpus * waits for gpus, waits in zip(timeline.total_gpus, is_waiting, strict=True)]
    gpu_s = window.area(Steps.of(timeline.time_s, contended))
    return window.area(Steps.of(timeline.time_s, timeline.broken_gpus)) / gpu_s if gpu_s else 0.0


def _changes(jobs: pd.DataFrame) -> dict[str, float]:
    able = jobs[jobs["state"] != "refused"]
    return {
        "resize_seconds": float(jobs["lost_s"].sum()),
        "resizes_per_job": able["resizes"].mean(),
        "suspensions_per_job": able["suspensions"].mean(),
    }


def _classes(jobs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    done = jobs[jobs["state"] == "succeeded"]
    return {name: _class(done[done["gpus"].between(*bounds)]) for name, bounds in CLASSES.items()}


def _class(done: pd.DataFrame) -> dict[str, Any]:
    return {
        "jobs": len(done),
        "mean_jct_s": _plain(done["jct_s"].mean()),
        "median_jct_s": _plain(done["jct_s"].median()),
        "mean_queueing_s": _plain(done["queue_s"].mean()),
    }


def _records(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    return {
        str(name): {str(column): _plain(value) for column, value in row.items()}
        for name, row in frame.to_dict(orient="index").items()
    }


def _plain(value: float) -> float | None:
    """A number of Python's own; None instead of what JSON does not have."""
    number = value if isinstance(value, int) else float(value)
    return number if math.isfinite(number) else None
