"""Results of simulations: tables for people, files for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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


def comparison(figures: Figures, spread: Figures | None = None) -> Table:
    """A line for each figure, a column for each policy.

    Args:
        figures: Of one seed, or means over several.
        spread: How far those seeds are from the means.
    """
    made = table("", *figures, numbers=figures)
    for label, (key, form) in _ROWS.items():
        made.add_row(label, *_cells(figures, spread, (key,), form))
    for name in next(iter(figures.values()))["classes"]:
        made.add_row(f"mean JCT, {name} (s)", *_cells(figures, spread, ("classes", name, "mean_jct_s"), _SECONDS))
    return made


def tenants_compared(figures: Figures, spread: Figures | None = None) -> Table:
    """GPU time of the largest tenants against what they were entitled to, by policy.

    Args:
        figures: Of one seed, or means over several.
        spread: How far those seeds are from the means.
    """
    made = table("GPU time over entitlement", "jobs", *figures, numbers=("jobs", *figures))
    first = next(iter(figures.values()))["tenants"]
    largest = sorted(first, key=lambda name: -first[name]["gpu_hours"])
    for name in largest[:_SHOWN_TENANTS]:
        received = _cells(figures, spread, ("tenants", name, "received"), _RATIO)
        made.add_row(name, _COUNT.format(first[name]["jobs"]), *received)
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
    write_summary(document, folder)
    write_charts(runs, folder)
    return "" if has_parquet else "pyarrow is not installed: the jobs are written as CSV, not as parquet"


def write_summary(document: Mapping[str, Any], folder: Path) -> None:
    """Write ``summary.json``.

    Raises:
        OSError: It cannot be written.
    """
    (folder / "summary.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _cells(figures: Figures, spread: Figures | None, path: Sequence[str], form: str) -> list[str]:
    """One figure of each policy, with its spread if there is one."""
    return [
        _cell(_at(found, path), None if spread is None else _at(spread[name], path), form)
        for name, found in figures.items()
    ]


def _at(found: Any, path: Sequence[str]) -> Any:
    for key in path:
        found = None if found is None else found.get(key)
    return found


def _cell(value: float | None, deviation: float | None, form: str) -> str:
    if value is None:
        return "-"
    return form.format(value) if deviation is None else f"{form.format(value)} ± {form.format(deviation)}"
