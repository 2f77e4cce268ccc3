"""Pictures of simulations, to compare policies: how long jobs took, how full the cluster was, who had it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from raytide.sim.report.run import Run
from raytide.sim.report.window import Window
from raytide.sim.series import Floats, Steps
from raytide.sim.simulation import SimResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _MUTED, _GRID = "#1f2933", "#66727f", "#e4e7eb"
_COLOURS = (
    "#2563a8",
    "#d9702a",
    "#2f855a",
    "#b83280",
    "#6b46c1",
    "#a98a1c",
    "#0f8b8d",
    "#7b4b2a",
    "#c53030",
    "#4a5568",
)
_OTHERS_COLOUR = "#c3cad1"
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)))
_BINS = 400
_WIDTH_IN, _DPI = 9.6, 125
"""1200 pixels wide."""
MOST_TENANTS = 8
"""So many tenants have a colour of their own; the rest is drawn as one."""


def write_charts(runs: Mapping[str, Run], folder: Path) -> list[Path]:
    """Write ``jct.png``, ``cluster.png`` and ``tenants.png``; returns their paths.

    Args:
        runs: By the name of the policy.
        folder: Where to; it is there.

    Raises:
        OSError: They cannot be written.
    """
    figures = {"jct": draw_jct(runs), "cluster": draw_cluster(runs), "tenants": draw_tenants(runs)}
    paths = []
    for name, figure in figures.items():
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1])
    return paths


# --- how long jobs took ----------------------------------------------------------------------


def draw_jct(runs: Mapping[str, Run]) -> Figure:
    """Which share of the jobs had been done after how long, by policy."""
    figure, (axes,) = _figure("Job completion time", rows=1, height_in=5.2)
    for number, (name, run) in enumerate(runs.items()):
        jct_s = np.sort(run.jobs["jct_s"].dropna().to_numpy())
        if len(jct_s):
            label = f"{name}  (mean {_duration(float(jct_s.mean()))}, median {_duration(float(np.median(jct_s)))})"
            shares = np.arange(1, len(jct_s) + 1) / len(jct_s)
            axes.step(jct_s, shares, where="post", label=label, **_line(number))
    axes.set_xscale("log")
    axes.set_xlabel("from submission to end", color=_MUTED)
    axes.set_ylabel("share of jobs done", color=_MUTED)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylim(0, 1.01)
    _label_durations(axes)
    _legend(figure, axes, columns=1 + (len(runs) > 1))
    return figure


_TICKS = ["1 s", "5 s", "20 s", "1 min", "5 min", "20 min", "1 h", "4 h", "1 d", "4 d", "14 d", "60 d", "200 d"]
_UNITS_S = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


def _label_durations(axes: Axes) -> None:
    """Ticks where people look for them: minutes, hours, days."""
    low, high = axes.get_xlim()
    seconds = {text: int(text.split()[0]) * _UNITS_S[text.split()[1]] for text in _TICKS}
    shown = {text: at_s for text, at_s in seconds.items() if low <= at_s <= high}
    axes.set_xticks(list(shown.values()), list(shown))
    axes.minorticks_off()
    axes.grid(axis="x", color=_GRID, linewidth=0.8)


def _duration(seconds: float) -> str:
    for unit, length_s in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.1f} {unit}"
    return f"{seconds:.0f} s"


# --- how full the cluster was ----------------------------------------------------------------


def draw_cluster(runs: Mapping[str, Run]) -> Figure:
    """GPUs held, as a share of those there, and how many jobs wait, over time, by policy."""
    figure, (above, below) = _figure("The cluster over time", rows=2, height_in=6.6)
    edges_s, scale = _edges(runs)
    for number, (name, run) in enumerate(runs.items()):
        timeline = run.result.timeline
        held, there, waits = (
            Steps.of(timeline.time_s, values).means(edges_s)
            for values in (timeline.held_gpus, timeline.total_gpus, timeline.waiting)
        )
        above.stairs(held / np.maximum(there, 1e-9), edges_s / scale.unit_s, label=name, **_line(number))
        below.stairs(waits, edges_s / scale.unit_s, **_line(number))
    above.set_ylabel("GPUs held", color=_MUTED)
    above.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    above.set_ylim(0, 1.03)
    below.set_ylabel("jobs waiting", color=_MUTED)
    below.set_ylim(bottom=0)
    _label_time(below, edges_s, scale)
    _legend(figure, above, columns=len(runs))
    return figure


# --- who had it ------------------------------------------------------------------------------


def draw_tenants(runs: Mapping[str, Run]) -> Figure:
    """GPUs held by each tenant over time, stacked, a row for each policy."""
    figure, rows = _figure(
        "GPUs held by tenant (dashed: all GPUs of the cluster)", rows=len(runs), height_in=1.6 + 2.2 * len(runs)
    )
    edges_s, scale = _edges(runs)
    groups = _groups(runs)
    for axes, (name, run) in zip(rows, runs.items(), strict=True):
        held = _held_by(run.result, groups, edges_s)
        centres = (edges_s[:-1] + edges_s[1:]) / 2 / scale.unit_s
        colours = [*_COLOURS[:MOST_TENANTS], _OTHERS_COLOUR]
        axes.stackplot(centres, list(held.values()), labels=list(held), colors=colours, linewidth=0)
        total = max(run.result.timeline.total_gpus, default=0)
        axes.axhline(total, color=_INK, linewidth=1.0, linestyle=(0, (4, 3)))
        axes.set_ylim(0, 1.06 * total)
        axes.set_ylabel("GPUs", color=_MUTED)
        axes.set_title(name, loc="left", fontsize=10, color=_INK)
    _label_time(rows[-1], edges_s, scale)
    _legend(figure, rows[0], columns=5)
    return figure


def _groups(runs: Mapping[str, Run]) -> dict[str, str]:
    """Under which label each tenant is drawn: the largest by their own names."""
    frames = [run.jobs for run in runs.values()]
    gpu_s = pd.concat(frames).groupby("tenant")["gpu_s"].sum().sort_values(ascending=False, kind="stable")
    names = [str(name) for name in gpu_s.index]
    few = len(names) <= MOST_TENANTS + 1
    kept = names if few else names[:MOST_TENANTS]
    others = f"{len(names) - len(kept)} others"
    return {name: name if name in kept else others for name in names}


def _held_by(result: SimResult, groups: Mapping[str, str], edges_s: Floats) -> dict[str, Floats]:
    """Mean GPUs held by each group, between each two edges."""
    group_of = {job.job: groups[job.spec.tenant] for job in result.jobs}
    group = np.array([group_of[job] for job in result.ledger.job], dtype=object)
    times_s, change = np.asarray(result.ledger.time_s), np.asarray(result.ledger.change)
    return {
        name: Steps.of_changes(times_s[group == name].tolist(), change[group == name]).means(edges_s)
        for name in dict.fromkeys(groups.values())
    }


# --- what all have in common -----------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    unit: str
    unit_s: float


def _edges(runs: Mapping[str, Run]) -> tuple[Floats, _Scale]:
    """Bins from the first submission to the last end of any run, and the unit of their labels."""
    windows = [Window.of(run.result) for run in runs.values()]
    start_s = min(window.start_s for window in windows)
    end_s = max(start_s + 1.0, *(window.end_s for window in windows))
    units = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0))
    fitting = (_Scale(unit, unit_s) for unit, unit_s in units if end_s - start_s >= 3 * unit_s)
    return np.linspace(start_s, end_s, _BINS + 1), next(fitting, _Scale("seconds", 1.0))


def _label_time(axes: Axes, edges_s: Floats, scale: _Scale) -> None:
    axes.set_xlabel(f"{scale.unit} on the clock of the trace", color=_MUTED)
    axes.set_xlim(edges_s[0] / scale.unit_s, edges_s[-1] / scale.unit_s)


def _figure(title: str, rows: int, height_in: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(_WIDTH_IN, height_in), dpi=_DPI, layout="constrained", facecolor="white")
    figure.suptitle(title, x=0.01, ha="left", color=_INK, fontsize=13, fontweight="bold")
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False)
    for axes in grid[:, 0]:
        axes.grid(axis="y", color=_GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=_MUTED, length=0, labelsize=10)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(_GRID)
    return figure, list(grid[:, 0])


def _line(number: int) -> dict[str, Any]:
    style = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    return {"color": _COLOURS[number % len(_COLOURS)], "linestyle": style, "linewidth": 1.6}


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    """Below the picture, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        ncols = max(1, min(columns, 5))
        figure.legend(
            handles, labels, loc="outside lower left", ncols=ncols, frameon=False, labelcolor=_INK, fontsize=10
        )
