"""A slice of Philly whose jobs train models with measured A100 speeds, assigned by job number."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from raytide.core import Controller, ControllerConfig, Costs, JobSpec, Node, Role, SpeedTable
from raytide.core.policy import Policy
from raytide.policies.placement import Count
from raytide.sim.simulation import SimJob, SimResult, Simulation
from raytide.sim.traces import TraceJob
from raytide.sim.workload import Fixed

MODELS = {"resnet50": 256, "vgg16": 256, "inception3": 128, "bert": 128, "gpt2": 256, "deepspeech2": 64}
"""With the global batch size at which they were measured."""
MOST_GPUS = 64


def speed_tables(folder: Path) -> dict[str, SpeedTable]:
    """Measured speeds by model, from a folder of ``<model>.csv``."""
    tables = {}
    for model, batch in MODELS.items():
        with (folder / f"{model}.csv").open() as file:
            row = next(row for row in csv.DictReader(file) if int(row.pop("global_batch_size")) == batch)
        tables[model] = SpeedTable({int(gpus): float(speed) for gpus, speed in row.items() if float(speed) > 0})
    return tables


def sim_jobs(trace: Sequence[TraceJob], tables: dict[str, SpeedTable], *, elastic: bool) -> list[SimJob]:
    """Jobs with the work of their duration at the requested size; elastic ones may have up to four times that."""
    return [_sim_job(job, tables, elastic=elastic) for job in trace]


def _sim_job(job: TraceJob, tables: dict[str, SpeedTable], *, elastic: bool) -> SimJob:
    model = list(MODELS)[int(job.job_id) % len(MODELS)]
    table = tables[model]
    least, most = (1, max(job.gpus, min(4 * job.gpus, MOST_GPUS))) if elastic else (job.gpus, job.gpus)
    spec = JobSpec(job.job_id, job.tenant, job.submit_s, (Role("replica", least, most),), job.gpus, model=model)
    assert job.duration_s is not None
    return SimJob(spec, Fixed(job.duration_s * table.speed(job.gpus), lambda there: table.speed(there.total)))


def simulate(policy: Policy, jobs: list[SimJob], tables: dict[str, SpeedTable], gpus: int, cost_s: float) -> SimResult:
    """Run the jobs on nodes of eight GPUs; every start and every change costs ``cost_s``."""
    nodes = [Node(f"n{i}", 8) for i in range(gpus // 8)]
    config = ControllerConfig(instant=True, speeds=tables, costs=Costs(cost_s, cost_s, cost_s))
    return Simulation(Controller(policy, Count(), nodes, config=config), jobs).run()


def mean_jct_s(result: SimResult) -> float:
    """From submission to end."""
    ends = [(job.ended_s, job.spec.submitted_s) for job in result.jobs]
    return fmean(end_s - submitted_s for end_s, submitted_s in ends if end_s is not None)
