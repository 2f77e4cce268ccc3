"""The example trace of Tiresias' simulator (NSDI 2019)."""

from __future__ import annotations

from pathlib import Path

from raytide.sim.traces.family import TEXT, WHOLE, Column, Family
from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.table import read_csv

TIRESIAS = Family(
    "Tiresias",
    (
        Column("job_id", "job_id", TEXT),
        Column("gpus", "num_gpu", WHOLE),
        Column("submit_s", "submit_time"),
        Column("iterations", "iterations"),
        Column("model", "model_name", TEXT),
        Column("duration_s", "duration"),
    ),
)


def read_tiresias(path: str | Path) -> list[TraceJob]:
    """Read ``job_id,num_gpu,submit_time,iterations,model_name,duration`` (and ``interval``, which is ignored).

    Source: SymbioticLab/Tiresias, ``simulator/60_job.csv`` (Apache-2.0).

    Raises:
        TraceError: A column is missing, or a row is malformed.
        OSError: The file cannot be opened.
    """
    return read_csv(path, TIRESIAS)
