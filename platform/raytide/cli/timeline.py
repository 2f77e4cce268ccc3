"""A picture of an elastic job: throughput and world size over time, with what happened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from raytide.actors.progress import format_ms
from raytide.cli.moments import Moment, story_of
from raytide.cli.traces import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from raytide.train import Result

WINDOW_S = 2.0
_INK, _MUTED, _GRID = "#1f2933", "#66727f", "#e4e7eb"
_THROUGHPUT, _SIZE = "#2563a8", "#7b8794"
_COLOURS = {
    "start": "#66727f",
    "grow": "#2f855a",
    "shrink": "#b7791f",
    "migrate": "#6b46c1",
    "lost": "#c53030",
    "recovered": "#c05621",
    "end": "#66727f",
}
_LABEL_ROWS = 4
_STRETCH_S = 2.5
"""A shorter stretch between two changes has no mean worth writing down."""


def draw_timeline(result: Result, steps: Sequence[Step]) -> Figure:
    """Draw a finished job.

    Args:
        result: The job's outcome; its events are marked.
        steps: Its committed steps, from :func:`raytide.cli.traces.read_steps`.
    """
    story = story_of(result)
    end_s = story[-1].time_s if story else 1.0
    origin_s = _origin_s(result)
    figure = Figure(figsize=(11.0, 6.2), dpi=130, layout="constrained", facecolor="white")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.0, 1.3))
    _draw_throughput(above, steps, origin_s)
    _draw_levels(above, story, steps, origin_s)
    _shade_preparation(above, story)
    _draw_sizes(below, story, end_s)
    for moment in story:
        for axes in (above, below):
            axes.axvline(moment.time_s, color=_COLOURS[moment.what], linewidth=1.0, alpha=0.55, zorder=1)
    _label(above, story, end_s)
    title = f"{result.job}: a training job that changes its size while it trains"
    figure.suptitle(title, x=0.01, ha="left", color=_INK, fontsize=13, fontweight="bold")
    below.set_xlim(-0.01 * end_s, 1.01 * end_s)
    below.set_xlabel("seconds since the job began to train", color=_MUTED)
    return figure


def throughput(steps: Sequence[Step], origin_s: float, window_s: float = WINDOW_S) -> tuple[np.ndarray, np.ndarray]:
    """Samples per second over a sliding window, at the time of every step."""
    times = np.array([step.time_s - origin_s for step in steps])
    done = np.cumsum([step.samples for step in steps])
    # Within the first window there is less than a window to look back on.
    back = np.maximum(times - window_s, 0.0)
    before = np.interp(back, np.concatenate([[0.0], times]), np.concatenate([[0.0], done]))
    return times, (done - before) / np.maximum(times - back, 0.25 * window_s)


def _origin_s(result: Result) -> float:
    first = result.events[result.events["kind"] == "generation"]
    return float(first["time_s"].iloc[0]) if len(first) else 0.0


def _draw_throughput(axes: Axes, steps: Sequence[Step], origin_s: float) -> None:
    _clean(axes, "samples / s")
    if not steps:
        return
    times, rates = throughput(steps, origin_s)
    axes.plot(times, rates, color=_THROUGHPUT, linewidth=1.5, zorder=3)
    axes.fill_between(times, rates, color=_THROUGHPUT, alpha=0.10, linewidth=0, zorder=2)
    axes.set_ylim(0, 1.25 * float(np.percentile(rates, 99.5)))


def _draw_levels(axes: Axes, story: Sequence[Moment], steps: Sequence[Step], origin_s: float) -> None:
    """The mean of every undisturbed stretch that is long enough to mean something."""
    times = np.array([step.time_s - origin_s for step in steps])
    samples = np.array([step.samples for step in steps])
    for now, after in pairwise(story):
        until_s = after.time_s - after.prepare_s
        span_s = until_s - now.time_s
        if span_s < _STRETCH_S:
            continue
        rate = samples[(times > now.time_s) & (times <= until_s)].sum() / span_s
        axes.hlines(rate, now.time_s, until_s, color=_INK, linewidth=1.3, linestyle=(0, (4, 3)), zorder=4)
        axes.text(
            now.time_s + 0.5 * span_s,
            0.5 * rate,
            f"{rate:,.0f}/s",
            ha="center",
            va="center",
            fontsize=9,
            color=_INK,
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.5},
        )


def _shade_preparation(axes: Axes, story: Sequence[Moment]) -> None:
    """Where newcomers start and import PyTorch, which on a small machine slows the training down."""
    label = "newcomers prepare while the others train"
    for moment in (m for m in story if m.prepare_s > 0):
        since_s = moment.time_s - moment.prepare_s
        axes.axvspan(since_s, moment.time_s, color=_COLOURS["grow"], alpha=0.10, linewidth=0, label=label)
        label = ""  # once in the legend
    if not label:
        axes.figure.legend(loc="upper right", frameon=False, fontsize=9, labelcolor=_MUTED)


def _draw_sizes(axes: Axes, story: Sequence[Moment], end_s: float) -> None:
    _clean(axes, "replicas")
    if not story:
        return
    times = [*(moment.time_s for moment in story), end_s]
    sizes = [moment.world_size for moment in story]
    axes.stairs(sizes, times, fill=True, color=_SIZE, alpha=0.25)
    axes.stairs(sizes, times, color=_SIZE, linewidth=2.0)
    axes.set_ylim(0, max(sizes) + 0.6)
    axes.set_yticks(range(max(sizes) + 1))


def _label(axes: Axes, story: Sequence[Moment], end_s: float) -> None:
    """Names above the picture, in rows, so that close ones do not cover each other."""
    free_from = [float("-inf")] * _LABEL_ROWS
    for moment in story:
        text = f"{moment.label}\npause {format_ms(moment.pause_s)}" if moment.pause_s else moment.label
        half = 0.0042 * end_s * max(len(line) for line in text.splitlines())
        centre = min(max(moment.time_s, half), end_s - half)
        fitting = (row for row in range(_LABEL_ROWS) if free_from[row] <= centre - half)
        row = next(fitting, min(range(_LABEL_ROWS), key=free_from.__getitem__))
        free_from[row] = centre + half
        _write(axes, moment, text, (centre, 1.03 + 0.13 * row))


def _write(axes: Axes, moment: Moment, text: str, place: tuple[float, float]) -> None:
    """A name with a line down to its moment; on white, because the lines of others may pass behind it."""
    colour = _COLOURS[moment.what]
    where: dict[str, Any] = {
        "xy": (moment.time_s, 1.0),
        "xytext": place,
        "xycoords": ("data", "axes fraction"),
        "textcoords": ("data", "axes fraction"),
        "ha": "center",
        "va": "bottom",
        "fontsize": 8.5,
        "color": colour,
    }
    line = {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "alpha": 0.55}
    axes.annotate("", **{**where, "arrowprops": line}, zorder=5)
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axes.annotate(text, **where, bbox=paper, zorder=6)


def _clean(axes: Axes, label: str) -> None:
    axes.set_ylabel(label, color=_MUTED)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_MUTED, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(_GRID)
