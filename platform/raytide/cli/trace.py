"""``trace``: make a synthetic trace, or see what is in one."""

# ruff: noqa: PLC0415 - numpy is imported when a command runs, so that help comes at once

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raytide.cli.options import JsonOption
from raytide.cli.output import output
from raytide.cli.scenario import read
from raytide.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from raytide.sim.traces import Percentiles, TraceDescription

_DAY_S = 86_400.0
JOBS_PER_DAY = 1000
"""As many as Philly had."""
_SHOWN = 8


def generate(
    path: Annotated[Path, typer.Argument(metavar="OUT.csv", help="The file to write.")],
    jobs: Annotated[int, typer.Option(help="How many.")] = 1000,
    seed: Annotated[int, typer.Option(help="Equal options with equal seeds make equal traces.")] = 0,
    span_days: Annotated[
        float | None,
        typer.Option(metavar="D", help="Days in which they are submitted.  [default: 1,000 jobs a day]"),
    ] = None,
    tenants: Annotated[int, typer.Option(help="How many submit.")] = 15,
    as_json: JsonOption = False,
) -> None:
    """Write a synthetic trace whose sizes, durations and arrivals have the shape of Philly's."""
    with output(as_json=as_json) as out:
        from raytide.sim.traces import SyntheticTrace, describe, write_trace
        from raytide.sim.traces import generate as draw

        span_s = (max(jobs, 1) / JOBS_PER_DAY if span_days is None else span_days) * _DAY_S
        made = draw(SyntheticTrace(jobs=jobs, span_s=span_s, tenants=tenants, seed=seed))
        try:
            write_trace(made, path)
        except OSError as error:
            problem = f"{path} cannot be written: {error.strerror or error}"
            raise ConfigError("out", problem, "Give a file in a folder of your own") from error
        found = describe(made)
        said = f"{path}: {found.jobs:,} jobs in {found.span_s / _DAY_S:.2f} days, {found.gpu_hours:,.0f} GPU-hours"
        out.show({"path": str(path), **asdict(found)}, said)


def describe(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace in any format that is known.")],
    gpus: Annotated[int | None, typer.Option(metavar="N", help="Show the load of a cluster of N GPUs.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is in a trace: sizes, durations, tenants, how much work it is."""
    with output(as_json=as_json) as out:
        from raytide.sim.traces import describe as describe_jobs

        found = describe_jobs(read(trace))
        document: dict[str, Any] = asdict(found)
        if gpus is not None:
            document["offered_load"] = found.offered_load(gpus) if found.span_s else None
        out.show(document, "\n".join(_lines(found, gpus)), "", _spread(found))


def _lines(found: TraceDescription, gpus: int | None) -> list[str]:
    lines = [
        f"jobs:       {found.jobs:,} in {found.span_s / _DAY_S:.2f} days",
        f"work:       {found.gpu_hours:,.1f} GPU-hours",
        f"GPUs:       {_counts(found.sizes)}",
        f"tenants:    {_counts(found.tenants)}",
    ]
    if found.unknown_durations:
        lines.append(f"unknown:    {found.unknown_durations:,} durations, whose work is not counted")
    if gpus is not None:
        load = found.offered_load(gpus)
        lines.append(f"load:       {load:.1%} of {gpus:,} GPUs; above 100% a queue must grow")
    return lines


def _counts(entries: tuple[tuple[Any, int], ...]) -> str:
    """``1 (240 jobs), 2 (60), ...``."""
    shown = [f"{name} ({count:,})" for name, count in entries[:_SHOWN]]
    more = len(entries) - _SHOWN
    return ", ".join([*shown, *([f"and {more:,} more"] if more > 0 else [])])


def _spread(found: TraceDescription) -> Table:
    from raytide.cli.render import table

    columns = ("least", "p10", "median", "p90", "p99", "most", "mean")
    made = table("seconds", *columns, numbers=columns)
    for name, values in (("duration", found.duration_s), ("between submissions", found.interarrival_s)):
        made.add_row(name, *_cells(values))
    return made


def _cells(values: Percentiles | None) -> list[str]:
    return ["-"] * 7 if values is None else [f"{value:,.0f}" for value in asdict(values).values()]
