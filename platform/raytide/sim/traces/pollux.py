"""Workloads of Pollux (OSDI 2021): jobs of known models, whose durations follow from throughput tables."""

from __future__ import annotations

from pathlib import Path

from raytide.sim.traces.family import TEXT, WHOLE, Column, Family
from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.table import read_csv

POLLUX = Family(
    "Pollux workload",
    (
        Column("job_id", "name", TEXT),
        Column("submit_s", "time"),
        Column("model", "application", TEXT),
        Column("gpus", "num_replicas", WHOLE),
        Column("batch_size", "batch_size", WHOLE),
    ),
)


def read_pollux(path: str | Path) -> list[TraceJob]:
    """Read ``name,time,application,num_replicas,batch_size``; no durations.

    Source: petuum/adaptdl, branch osdi21-artifact, ``simulator/workloads`` and ``workloads-realistic``
    (Apache-2.0).

    Raises:
        TraceError: A column is missing, or a row is malformed.
        OSError: The file cannot be opened.
    """
    return read_csv(path, POLLUX)
