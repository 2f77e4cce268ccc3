"""Microsoft's Philly cluster, 2017, in the short form that the Pollux artefact made of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from raytide.sim.traces.family import TEXT, WHOLE, Column, Family, Kind
from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.table import read_csv


def _clock_s(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


PHILLY = Family(
    "Philly",
    (
        Column("submit_s", "timestamp", Kind("a date such as 2017-10-09 07:01:55", _clock_s)),
        Column("duration_s", "duration"),
        Column("gpus", "num_gpus", WHOLE),
        Column("tenant", "cluster", TEXT),
    ),
    is_rebased=True,
)


def read_philly(path: str | Path) -> list[TraceJob]:
    """Read ``timestamp,duration,num_gpus,gpu_time,cluster``; tenants are the virtual clusters.

    Source: petuum/adaptdl, branch osdi21-artifact, ``simulator/traces/philly.csv``, made from
    msr-fiddle/philly-traces (CC-BY-4.0; Jeon et al., USENIX ATC 2019). The first submission is second 0 and jobs
    are numbered from 0 in the order of the file. Dates carry no time zone and are taken at their face value.

    Raises:
        TraceError: A column is missing, or a row is malformed.
        OSError: The file cannot be opened.
    """
    return read_csv(path, PHILLY)
