"""Pollux's workloads: 160 jobs of six applications on 16 nodes of four GPUs, sizes and batches free."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from statistics import fmean

from raytide.core import Controller, ControllerConfig, Costs, Node, SpeedModel, split_batch
from raytide.core.policy import Policy
from raytide.policies.placement import MostFree
from raytide.sim.pollux import Application, NotMeasuredError, iteration_time
from raytide.sim.pollux.rounds import elastic_jobs, rigid_jobs, speeds
from raytide.sim.pollux.workload import adaptive_jobs
from raytide.sim.simulation import SimJob, SimResult, Simulation
from raytide.sim.traces import TraceJob
from raytide.sim.workload import Fixed

NODES, GPUS_PER_NODE = 16, 4
GPUS = NODES * GPUS_PER_NODE
START_S = 30.0
POLLUX_MEAN_JCT_S = 2573.5
"""Of workloads 1 to 6, from the logs of Pollux's authors (petuum/adaptdl, osdi21-artifact)."""


def simulate(
    policy: Policy,
    trace: Sequence[TraceJob],
    applications: Mapping[str, Application],
    change_s: float,
    *,
    declared: bool = True,
) -> SimResult:
    """Run a workload; a first start costs 30 s, every other change ``change_s``.

    Args:
        policy: New.
        trace: The workload.
        applications: What its jobs train.
        change_s: Seconds of a resize, and of a start after a suspension.
        declared: Whether the policy is told how many epochs jobs have.
    """
    jobs = adaptive_jobs(trace, applications, GPUS)
    if not declared:
        jobs = [replace(job, spec=replace(job.spec, work=None)) for job in jobs]
    return _run(policy, jobs, {}, change_s)


def simulate_fixed_batch(
    policy: Policy,
    trace: Sequence[TraceJob],
    applications: Mapping[str, Application],
    change_s: float,
    *,
    elastic: bool,
) -> SimResult:
    """The same with the batch that the workload gives each job, at speeds by size that are known beforehand.

    Args:
        policy: New.
        trace: The workload.
        applications: What its jobs train.
        change_s: Seconds of a resize, and of a start after a suspension.
        elastic: Whether a job may have any number of replicas, or only what the workload gives it.
    """
    known = speeds(trace, applications, GPUS_PER_NODE)
    jobs = (elastic_jobs if elastic else rigid_jobs)(trace, applications)
    return _run(policy, [_steady(job, known[job.spec.model]) for job in jobs], known, change_s)


def _steady(job: SimJob, speed: SpeedModel) -> SimJob:
    """A job that can be changed at any time, unlike those of Pollux's own simulator."""
    assert job.spec.work is not None
    return replace(job, workload=Fixed(job.spec.work, lambda placement: speed.speed(placement.total)))


def _run(policy: Policy, jobs: list[SimJob], known: Mapping[str, SpeedModel], change_s: float) -> SimResult:
    costs = Costs(START_S, change_s, change_s)
    nodes = [Node(f"n{number}", GPUS_PER_NODE) for number in range(NODES)]
    controller = Controller(policy, MostFree(), nodes, config=ControllerConfig(instant=True, speeds=known, costs=costs))
    return Simulation(controller, jobs).run()


def jcts_s(result: SimResult) -> list[float]:
    """From submission to end, by job."""
    return [job.ended_s - job.spec.submitted_s for job in result.jobs if job.ended_s is not None]


def mean_by_application(results: Sequence[SimResult]) -> dict[str, float]:
    """Mean JCT of each application."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        for job, jct_s in zip(result.jobs, jcts_s(result), strict=True):
            found[job.spec.model].append(jct_s)
    return {name: round(fmean(values), 1) for name, values in sorted(found.items())}


def rhos(result: SimResult, applications: Mapping[str, Application]) -> list[float]:
    """Finish-time fairness of each job: its JCT over 30 s and the JCT with an equal share of the cluster at all times.

    The share is of whole GPUs, below one GPU of its time; the batch is the best one, and nothing else costs time.
    """
    times_s, active = _active(result)
    found = []
    for job, jct_s in zip(result.jobs, jcts_s(result), strict=True):
        most = job.spec.roles[0].most
        fair_s = _fair_jct_s(applications[job.spec.model], most, job.spec.submitted_s, jct_s, times_s, active)
        found.append(jct_s / (START_S + fair_s))
    return found


def _active(result: SimResult) -> tuple[list[float], list[int]]:
    """Jobs that were there from each instant on."""
    changes = sorted(
        [(job.spec.submitted_s, 1) for job in result.jobs]
        + [(job.ended_s, -1) for job in result.jobs if job.ended_s is not None]
    )
    return [-1.0, *(at for at, _ in changes)], list(accumulate((by for _, by in changes), initial=0))


def _fair_jct_s(
    app: Application, most: int, submitted_s: float, jct_s: float, times_s: Sequence[float], active: Sequence[int]
) -> float:
    now, epoch, progress = submitted_s, 0, 0.0
    place = bisect_right(times_s, now) - 1
    while epoch < app.limits.epochs:
        others_only = now >= submitted_s + jct_s  # over in truth, but not with its fair share
        share = GPUS / max(1, active[place] + others_only)
        rate = best_rate(app, min(int(share), most), epoch) if share >= 1 else share * best_rate(app, 1, epoch)
        needed_s = (app.boundaries[epoch + 1] - progress) / rate
        left_s = times_s[place + 1] - now if place + 1 < len(times_s) else math.inf
        if needed_s <= left_s:
            now, progress, epoch = now + needed_s, app.boundaries[epoch + 1], epoch + 1
        else:
            now, progress, place = now + left_s, progress + left_s * rate, place + 1
    return now - submitted_s


@cache
def best_rate(app: Application, gpus: int, epoch: int) -> float:
    """The highest rate with at most so many GPUs on full nodes, at any batch."""
    best = best_rate(app, gpus - 1, epoch) if gpus > 1 else 0.0
    full, rest = divmod(gpus, GPUS_PER_NODE)
    placement = (*[GPUS_PER_NODE] * full, *[rest][: rest > 0])
    least = max(app.limits.smallest_batch, gpus * app.limits.min_local)
    ratio = (app.limits.largest_batch / least) ** (1 / 31)
    for power in range(32):
        split = split_batch(app.limits, min(round(least * ratio**power), app.limits.largest_batch), gpus)
        try:
            best = max(best, app.gain(split.batch, epoch) / iteration_time(app, placement, split))
        except NotMeasuredError:
            continue
    return best
