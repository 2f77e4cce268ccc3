"""Traces of ElasticFlow (ASPLOS 2023): jobs with models, iterations and deadlines."""

from __future__ import annotations

from pathlib import Path

from raytide.sim.traces.family import TEXT, WHOLE, Column, Family
from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.table import read_csv


def _family(name: str, submit: str, iterations: str, deadline: str) -> Family:
    return Family(
        name,
        (
            Column("job_id", "job_id", TEXT),
            Column("submit_s", submit),
            Column("iterations", iterations),
            Column("model", "model_name", TEXT),
            Column("deadline_s", deadline),
            Column("batch_size", "batch_size", WHOLE),
            Column("gpus", "num_gpu", WHOLE),
            Column("duration_s", "duration"),
        ),
    )


ELASTICFLOW = _family("ElasticFlow", "submit_time", "iteration", "ddl")
ELASTICFLOW_MICROSOFT = _family("ElasticFlow on Microsoft's clusters", "submission_time", "num_iteration", "deadline")


def read_elasticflow(path: str | Path) -> list[TraceJob]:
    """Read either column set: ``submit_time,iteration,ddl`` or ``submission_time,num_iteration,deadline``.

    Sources: pkusys/ElasticFlow, ``traces_for_ElasticFlow/philly_103959.csv`` (Apache-2.0, made from Philly,
    CC-BY-4.0); microsoft/elasticflow-traces, ``data/195job.csv`` (MIT). Their authors drew the models at random.

    Deadlines are absolute in both: (deadline - submission) / duration lies between 0.5 and 1.5 for every job. So
    about half of the jobs cannot meet theirs on the GPUs they ask for (92 of the 195).

    Raises:
        TraceError: A column is missing, or a row is malformed.
        OSError: The file cannot be opened.
    """
    return read_csv(path, ELASTICFLOW, ELASTICFLOW_MICROSOFT)
