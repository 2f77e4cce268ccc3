"""raytide's own trace format: what generated traces and slices of public ones are written in."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from raytide.sim.traces.family import NUMBER, TEXT, WHOLE, Column, Family
from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.table import read_csv

DEFAULT = Family(
    "default",
    (
        Column("job_id", "job_id", TEXT),
        Column("tenant", "tenant", TEXT),
        Column("submit_s", "submit_time"),
        Column("gpus", "num_gpus", WHOLE),
        Column("duration_s", "duration", NUMBER.or_empty(None)),
        Column("model", "model", TEXT, is_required=False),
        Column("batch_size", "batch_size", WHOLE.or_empty(0), is_required=False),
        Column("iterations", "iterations", NUMBER.or_empty(None), is_required=False),
        Column("deadline_s", "deadline", NUMBER.or_empty(None), is_required=False),
    ),
)
_DEFAULTS = {field.name: field.default for field in fields(TraceJob)}


def read_default(path: str | Path) -> list[TraceJob]:
    """Read ``job_id,tenant,submit_time,num_gpus,duration`` (seconds; an empty duration is an unknown one).

    Slices of the Philly trace (msr-fiddle/philly-traces, CC-BY-4.0) come in this format. ``model``, ``batch_size``,
    ``iterations`` and ``deadline`` (on the clock of ``submit_time``) are read where a file has them.

    Raises:
        TraceError: A column is missing, or a row is malformed.
        OSError: The file cannot be opened.
    """
    return read_csv(path, DEFAULT)


def write_trace(jobs: Sequence[TraceJob], path: str | Path) -> None:
    """Write jobs so that ``read_trace`` gives back equal ones, sorted by submission.

    Optional columns are written if a job has something to say in them.

    Raises:
        OSError: The file cannot be written.
    """
    columns = [column for column in DEFAULT.columns if column.is_required or _is_told(jobs, column)]
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        writer.writerows(zip(*(_cells(jobs, column) for column in columns), strict=True))


def _is_told(jobs: Sequence[TraceJob], column: Column) -> bool:
    return any(getattr(job, column.field) != _DEFAULTS[column.field] for job in jobs)


def _cells(jobs: Sequence[TraceJob], column: Column) -> list[str]:
    return [_cell(getattr(job, column.field)) for job in jobs]


def _cell(value: str | float | None) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)
