"""Pollux's published Tiresias results through raytide's own controller, policy, placer and simulator."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from statistics import fmean

import pytest
from threadpoolctl import threadpool_limits

from raytide.core import Controller, ControllerConfig, Costs, Node, Rounds
from raytide.policies.las2d import Las2d
from raytide.policies.placement import MostFree
from raytide.sim.pollux import Application, load_applications
from raytide.sim.pollux.rounds import ROUND_S, rigid_jobs
from raytide.sim.simulation import Simulation
from raytide.sim.traces import read_trace
from support.scheduling import trace_file

RESTART = Costs(30.0, 30.0, 30.0)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Triangulating solves thousands of 3 x 3 systems: more threads only wait for one another."""
    with threadpool_limits(1):
        yield


@cache
def applications() -> dict[str, Application]:
    return load_applications(trace_file("pollux/traces"))


@pytest.mark.parametrize(
    ("workload", "mean_jct_s"),
    [
        ("workloads/workload-1.csv", 2473.7),
        ("workloads/workload-2.csv", 5145.0),
        ("workloads/workload-3.csv", 3876.3),
        ("workloads/workload-4.csv", 3280.3),
        ("workloads/workload-5.csv", 3501.0),
        ("workloads/workload-6.csv", 3469.69375),
        ("workloads-realistic/workload-6.csv", 7731.09),
    ],
)
def test_tiresias(workload: str, mean_jct_s: float) -> None:
    jobs = rigid_jobs(read_trace(trace_file(f"pollux/{workload}")), applications())
    policy = Las2d((57_600.0,), clock=Rounds(ROUND_S), running_first=False)
    nodes = [Node(f"n{number}", 4) for number in range(16)]
    controller = Controller(policy, MostFree(), nodes, config=ControllerConfig(instant=True, costs=RESTART))
    result = Simulation(controller, jobs, RESTART).run()
    ends = [(job.ended_s, job.spec.submitted_s) for job in result.jobs]
    assert fmean(end_s - submitted_s for end_s, submitted_s in ends if end_s) == pytest.approx(mean_jct_s, rel=1e-3)
