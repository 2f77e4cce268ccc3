"""Traces of Gavel (OSDI 2020): tabs between cells and no header; the number of cells tells the column set."""

from __future__ import annotations

import re
from pathlib import Path

from raytide.sim.traces.errors import TraceError
from raytide.sim.traces.family import WHOLE, Column, Family, Kind
from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.source import Tabs, open_source
from raytide.sim.traces.table import Table

SUFFIX = ".trace"
COLUMN_SETS = (
    (
        *("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir"),
        *("total_steps", "scale_factor", "priority_weight", "SLO", "arrival_time"),
    ),
    ("job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "arrival_time", "scale_factor"),
)
"""The present columns, and the older ones of the traces made from Philly."""

_JOB_TYPE = re.compile(r"(.+?)(?: \(batch size (\d+)\))?")


def _model(job_type: str) -> str:
    return _split(job_type)[0]


def _batch_size(job_type: str) -> int:
    return int(_split(job_type)[1] or 0)


def _split(job_type: str) -> tuple[str, str | None]:
    match = _JOB_TYPE.fullmatch(job_type.strip())
    if match is None:
        raise ValueError(job_type)
    return match[1], match[2]


_TYPE = "a job type such as ResNet-18 (batch size 128)"
GAVEL = Family(
    "Gavel (*.trace, tab-separated, no header)",
    (
        Column("model", "job_type", Kind(_TYPE, _model)),
        Column("batch_size", "job_type", Kind(_TYPE, _batch_size)),
        Column("iterations", "total_steps"),
        Column("gpus", "scale_factor", WHOLE),
        Column("submit_s", "arrival_time"),
    ),
)


def read_gavel(path: str | Path) -> list[TraceJob]:
    """Read a ``.trace`` of ten columns, or of the older seven (see ``COLUMN_SETS``).

    Source: stanford-futuredata/gavel, ``scheduler/traces`` (MIT). A job type ``ResNet-18 (batch size 128)`` becomes
    model ``ResNet-18`` and batch size 128. Jobs are numbered from 0 in the order of the file. There are no
    durations (they follow from Gavel's throughput table), hence no deadlines: ``SLO`` is a multiple of a duration.

    Raises:
        TraceError: The number of cells is another, or a row is malformed.
        OSError: The file cannot be opened.
    """
    with open_source(path) as source:
        rows = list(source.rows(Tabs))
        if not rows:
            raise TraceError(source.label, None, None, "it is empty", "Give at least one row")
        line, cells = rows[0]
        header = next((columns for columns in COLUMN_SETS if len(columns) == len(cells)), None)
        if header is None:
            known = "; ".join(f"{len(columns)}: {', '.join(columns)}" for columns in COLUMN_SETS)
            raise TraceError(source.label, line, None, f"{len(cells)} cells", f"Known column sets are {known}")
        return Table(source.label, line, header, rows).jobs(GAVEL)
