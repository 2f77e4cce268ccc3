"""Ten clusters of Microsoft, two months of 2021, as published with ElasticFlow."""

from __future__ import annotations

from pathlib import Path

from raytide.sim.traces.elasticflow import ELASTICFLOW_MICROSOFT
from raytide.sim.traces.family import TEXT, WHOLE, Column, Family
from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.table import read_csv

MICROSOFT = Family(
    "Microsoft cluster",
    (
        Column("job_id", "job_id", TEXT),
        Column("submit_s", "submission_time"),
        Column("duration_s", "duration"),
        Column("gpus", "num_gpu", WHOLE),
    ),
)


def read_microsoft(path: str | Path, member: str | None = None) -> list[TraceJob]:
    """Read ``job_id,submission_time,duration,num_gpu``, from a file or straight from the published archives.

    Source: microsoft/elasticflow-traces, ``data/raw-traces.tar.gz``; the members of ``elasticflow-traces.tar.gz``
    have models, iterations and deadlines besides (MIT). Times are kept on the trace's own clock, which does not
    begin with the first job. Only jobs of at least 600 s are in it.

    Args:
        path: An archive, or one of its members unpacked.
        member: The cluster to take from an archive (``cluster05``), see :func:`members`.

    Raises:
        TraceError: No such member, a column is missing, or a row is malformed.
        OSError: The file cannot be opened.
    """
    return read_csv(path, MICROSOFT, ELASTICFLOW_MICROSOFT, member=member)
