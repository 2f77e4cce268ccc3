"""Elastic-Tiresias against Tiresias on a slice of Philly, with measured A100 speeds.

Figures of the baseline: an independent prototype of the same rules. Models are assigned by job number.
"""

from __future__ import annotations

import csv
from functools import cache
from statistics import fmean

import pytest

from raytide.core import Controller, ControllerConfig, JobSpec, Role, SpeedTable
from raytide.policies.elastic_tiresias import ElasticTiresias
from raytide.policies.placement import Count
from raytide.policies.tiresias import Tiresias
from raytide.sim.simulation import Costs, SimJob, Simulation
from raytide.sim.traces import read_trace
from raytide.sim.workload import Fixed
from support.scheduling import nodes, trace_file

MODELS = {"resnet50": 256, "vgg16": 256, "inception3": 128, "bert": 128, "gpt2": 256, "deepspeech2": 64}


@cache
def speed_tables() -> dict[str, SpeedTable]:
    tables = {}
    for model, batch in MODELS.items():
        with trace_file(f"elasticflow/throughputs_A100/{model}.csv").open() as file:
            row = next(row for row in csv.DictReader(file) if int(row.pop("global_batch_size")) == batch)
        tables[model] = SpeedTable({int(gpus): float(speed) for gpus, speed in row.items() if float(speed) > 0})
    return tables


def elastic_jobs(*, elastic: bool) -> list[SimJob]:
    jobs = []
    for job in read_trace(trace_file("philly-slices/philly_480.csv")):
        model = list(MODELS)[int(job.job_id) % len(MODELS)]
        table = speed_tables()[model]
        least, most = (1, max(job.gpus, min(4 * job.gpus, 64))) if elastic else (job.gpus, job.gpus)
        role = Role("replica", least, most)
        spec = JobSpec(job.job_id, job.tenant, job.submit_s, (role,), job.gpus, model=model)
        work = job.duration_s * table.speed(job.gpus)
        jobs.append(SimJob(spec, Fixed(work, lambda placement, table=table: table.speed(placement.total))))
    return jobs


def mean_jct_s(policy, gpus: int, cost_s: float, *, elastic: bool) -> float:
    config = ControllerConfig(instant=True, speeds=speed_tables())
    controller = Controller(policy, Count(), nodes(*[8] * (gpus // 8)), config=config)
    result = Simulation(controller, elastic_jobs(elastic=elastic), Costs(cost_s, cost_s, cost_s)).run()
    controller.validate()
    return fmean(job.ended_s - job.spec.submitted_s for job in result.jobs)


@pytest.mark.parametrize(
    ("gpus", "cost_s", "baseline_s", "elastic_s"),
    [(128, 0.0, 25073, 13999), (128, 30.0, 25818, 14550), (256, 0.0, 11259, 7703), (256, 30.0, 11343, 8015)],
)
def test_elasticity_shortens_jobs(gpus, cost_s, baseline_s, elastic_s):
    baseline = mean_jct_s(Tiresias(), gpus, cost_s, elastic=False)
    assert baseline == pytest.approx(baseline_s, abs=0.51)
    elastic = mean_jct_s(ElasticTiresias(), gpus, cost_s, elastic=True)
    assert elastic == pytest.approx(elastic_s, rel=0.01)
    if gpus == 128:
        assert elastic / baseline <= 0.60
