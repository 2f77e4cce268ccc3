"""Traces of ElasticFlow on A100: jobs with iterations and deadlines, and the speeds they were published with."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from raytide.core import Controller, ControllerConfig, Costs, EventDriven, Job, JobSpec, Node, Role, SpeedTable, rigid
from raytide.core.policy import Policy
from raytide.policies.allotment import Task
from raytide.policies.deadline import Deadline
from raytide.policies.deadline_plan import Planner, by_deadline
from raytide.policies.las2d import Las2d
from raytide.policies.placement import Count
from raytide.sim.simulation import SimJob, SimResult, Simulation
from raytide.sim.traces import TraceJob
from raytide.sim.workload import Fixed

MOST_GPUS = 64
CHANGE_S = 30.0
DLAS_GAP_S = 240.0
_LIMITS = {
    ("bert", 64): 8,
    ("bert", 128): 16,
    ("gpt2", 128): 16,
    ("gpt2", 256): 32,
    ("inception3", 64): 16,
    ("inception3", 128): 32,
    ("resnet50", 64): 32,
    ("vgg16", 64): 32,
}
"""Where ElasticFlow stops to give GPUs, by model and batch; elsewhere at the batch, or at 64."""


def speed_tables(folder: Path) -> dict[str, SpeedTable]:
    """Iterations per second by ``model/batch``, at the sizes that a job may have."""
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            for row in csv.DictReader(file):
                batch = int(row.pop("global_batch_size"))
                most = _LIMITS.get((path.stem, batch), min(batch, MOST_GPUS))
                speeds = {int(gpus): float(speed) for gpus, speed in row.items() if speed and int(gpus) <= most}
                measured = {gpus: speed for gpus, speed in speeds.items() if speed > 0}
                tables[f"{path.stem}/{batch}"] = SpeedTable(measured)
    return tables


def elastic_jobs(trace: Sequence[TraceJob], tables: dict[str, SpeedTable]) -> list[SimJob]:
    """Jobs whose work is their iterations, from one GPU up to the largest size of their table."""
    return [_elastic(job, tables) for job in trace]


def _elastic(job: TraceJob, tables: dict[str, SpeedTable]) -> SimJob:
    model = f"{job.model}/{job.batch_size}"
    table = tables[model]
    most = max(table.measured)
    assert job.iterations is not None
    spec = JobSpec(
        job.job_id,
        job.tenant,
        job.submit_s,
        (Role("replica", 1, most),),
        min(job.gpus, most),
        work=job.iterations,
        deadline_s=job.deadline_s,
        model=model,
    )
    return SimJob(spec, Fixed(job.iterations, lambda there: table.speed(there.total)))


def rigid_jobs(trace: Sequence[TraceJob]) -> list[SimJob]:
    """Jobs as ElasticFlow's rigid policies see them: fixed size and duration, and a start that grows with the size."""
    return [_rigid(job) for job in trace]


def _rigid(job: TraceJob) -> SimJob:
    assert job.duration_s is not None
    spec = replace(rigid(job.job_id, job.tenant, job.submit_s, job.gpus, job.duration_s), deadline_s=job.deadline_s)
    start_s = 2.0 + 2.0 * (math.log2(job.gpus) + 1.0)
    return SimJob(spec, Fixed(job.duration_s), Costs(start_s, start_s))


def simulate(policy: Policy, jobs: list[SimJob], tables: dict[str, SpeedTable], gpus: int = 128) -> SimResult:
    """Run the jobs on nodes of eight GPUs; a change costs 30 s, where a job has no costs of its own."""
    nodes = [Node(f"n{i}", 8) for i in range(gpus // 8)]
    config = ControllerConfig(instant=True, speeds=tables, costs=Costs(CHANGE_S, CHANGE_S, CHANGE_S))
    return Simulation(Controller(policy, Count(), nodes, config=config), jobs).run()


def dlas_gpu() -> Las2d:
    """ElasticFlow's ``dlas-gpu``: least attained service, with decisions at least 240 s apart."""
    return Las2d(clock=EventDriven(min_gap_s=DLAS_GAP_S))


class MinimumShares(Deadline):
    """A plain baseline: minimum shares anew at every event, by deadline; who does not fit at once is refused."""

    name = "minimum_shares"

    def _admit(self, planner: Planner, tasks: Sequence[Task]) -> tuple[dict[str, str], float]:
        accepted = [task for task in tasks if task.job.job in self._admitted]
        plan, refused = planner.lean(accepted, by_deadline), {}
        for task in (task for task in tasks if task.job.job not in self._admitted):
            trial = planner.lean([*accepted, task], by_deadline)
            if len(trial) > len(plan) and task.job.job in trial:
                accepted.append(task)
                self._admitted.add(task.job.job)
                plan = trial
            else:
                refused[task.job.job] = "no room before its deadline"
        self._plan = plan
        return refused, math.inf


def met_share(result: SimResult) -> float:
    """Which share of all jobs were done in time."""
    return round(sum(map(met, result.jobs)) / len(result.jobs), 4)


def met(job: Job) -> bool:
    """Whether a job was done in time; refused and late ones were not."""
    deadline_s = job.spec.deadline_s
    in_time = deadline_s is not None and job.ended_s is not None and job.ended_s <= deadline_s
    return in_time and str(job.state) == "succeeded"
