"""Results of simulations: tables for people, files for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table

from raytide.cli.render import table
from raytide.sim.charts import write_charts
from raytide.sim.report import Run, tenant_table

Figures = Mapping[str, Mapping[str, Any]]
"""What :func:`raytide.sim.report.summary` says, by policy."""

_SECONDS, _COUNT, _RATIO, _SHARE = "{:,.1f}", "{:,.0f}", "{:,.2f}", "{:.1%}"
_ROWS = {
    "mean JCT (s)": ("mean_jct_s", _SECONDS),
    "median JCT (s)": ("median_jct_s", _SECONDS),
    "p95 JCT (s)": ("p95_jct_s", _SECONDS),
    "p99 JCT (s)": ("p99_jct_s", _SECONDS),
    "mean queueing (s)": ("mean_queueing_s", _SECONDS),
    "mean bounded slowdown": ("mean_bounded_slowdown", _RATIO),
    "makespan (s)": ("makespan_s", _COUNT),
    "deadlines met": ("deadlines_met", _SHARE),
    "GPU-hours": ("gpu_hours", _SECONDS),
    "GPUs allocated": ("allocated_utilisation", _SHARE),
    "GPUs making progress": ("useful_utilisation", _SHARE),
    "lost to starts, resizes (s)": ("resize_seconds", _COUNT),
    "resizes per job": ("resizes_per_job", _RATIO),
    "preemptions per job": ("suspensions_per_job", _RATIO),
    "fragmentation": ("fragmentation", _SHARE),
    "mean finish-time fairness": ("mean_rho", _RATIO),
    "worst finish-time fairness": ("max_rho", _RATIO),
    "jobs done": ("succeeded", _COUNT),
    "jobs refused": ("refused", _COUNT),
}
_SHOWN_TENANTS = 12


def comparison(figures: Figures) -> Table:
    """A line for each figure, a column for each policy."""
    made = table("", *figures, numbers=figures)
    for label, (key, form) in _ROWS.items():
        made.add_row(label, *(_cell(found[key], form) for found in figures.values()))
    for name in next(iter(figures.values()))["classes"]:
        means = (found["classes"][name]["mean_jct_s"] for found in figures.values())
        made.add_row(f"mean JCT, {name} (s)", *(_cell(mean, _SECONDS) for mean in means))
    return made


def tenants_compared(figures: Figures) -> Table:
    """GPU time of the largest tenants against what they were entitled to, by policy."""
    made = table("GPU time over entitlement", "jobs", *figures, numbers=("jobs", *figures))
    first = next(iter(figures.values()))["tenants"]
    largest = sorted(first, key=lambda name: -first[name]["gpu_hours"])
    for name in largest[:_SHOWN_TENANTS]:
        received = (found["tenants"][name]["received"] for found in figures.values())
        made.add_row(name, str(first[name]["jobs"]), *(_cell(value, _RATIO) for value in received))
    if len(largest) > _SHOWN_TENANTS:
        made.add_row(f"and {len(largest) - _SHOWN_TENANTS} more", "", *("" for _ in figures))
    return made


def write_results(runs: Mapping[str, Run], document: Mapping[str, Any], folder: Path) -> str:
    """Write per-job and per-tenant tables, ``summary.json`` and charts; returns what is to be told about it.

    Raises:
        OSError: They cannot be written.
    """
    has_parquet = find_spec("pyarrow") is not None
    for name, run in runs.items():
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
        run.jobs.to_csv(folder / f"jobs-{stem}.csv", index=False, lineterminator="\n")
        tenant_table(run.result, run.jobs).to_csv(folder / f"tenants-{stem}.csv", index=False, lineterminator="\n")
        if has_parquet:
            run.jobs.to_parquet(folder / f"jobs-{stem}.parquet", index=False)
    (folder / "summary.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    write_charts(runs, folder)
    return "" if has_parquet else "pyarrow is not installed: the jobs are written as CSV, not as parquet"


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
