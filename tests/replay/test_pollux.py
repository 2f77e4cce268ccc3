"""Pollux's published results of Tiresias and of Optimus with an oracle, through raytide's controller and simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from raytide.core import Controller, ControllerConfig, Costs, Node, Policy, Rounds, SpeedModel
from raytide.policies.las2d import Las2d
from raytide.policies.optimus import Optimus
from raytide.policies.placement import MostFree
from raytide.sim.pollux import Application, load_applications
from raytide.sim.pollux.rounds import ROUND_S, elastic_jobs, rigid_jobs, speeds
from raytide.sim.simulation import SimJob, Simulation
from raytide.sim.traces import read_trace
from support.scheduling import trace_file

GPUS_PER_NODE = 4
RESTART = Costs(30.0, 30.0, 30.0)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Triangulating solves thousands of 3 x 3 systems: more threads only wait for one another."""
    with threadpool_limits(1):
        yield


@cache
def applications() -> dict[str, Application]:
    return load_applications(trace_file("pollux/traces"))


def replayed(policy: Policy, jobs: list[SimJob], known: Mapping[str, SpeedModel]) -> tuple[float, float, float]:
    """Mean and 99th percentile of JCTs, and the makespan, on 16 nodes of four GPUs."""
    nodes = [Node(f"n{number}", GPUS_PER_NODE) for number in range(16)]
    config = ControllerConfig(instant=True, costs=RESTART, speeds=known)
    controller = Controller(policy, MostFree(), nodes, config=config)
    result = Simulation(controller, jobs).run()
    ends_s = np.array([job.ended_s for job in result.jobs], dtype=np.float64)
    jcts_s = ends_s - [job.spec.submitted_s for job in result.jobs]
    return float(jcts_s.mean()), float(np.percentile(jcts_s, 99, method="higher")), float(ends_s.max())


def agrees(found: tuple[float, float, float], mean_jct_s: float, others: tuple[float, float] | None) -> bool:
    """To the digit that was printed; the 99th percentile and the makespan where they are known."""
    return found[0] == pytest.approx(mean_jct_s, abs=0.0501, rel=0) and others in (None, found[1:])


@pytest.mark.parametrize(
    ("workload", "mean_jct_s", "p99_and_makespan_s"),
    [
        ("workloads/workload-1.csv", 2473.7, None),
        ("workloads/workload-2.csv", 5145.0, None),
        ("workloads/workload-3.csv", 3876.3, None),
        ("workloads/workload-4.csv", 3280.3, None),
        ("workloads/workload-5.csv", 3501.0, None),
        ("workloads/workload-6.csv", 3469.69375, (52573, 78609)),
        ("workloads-realistic/workload-6.csv", 7731.09, (82501, 102101)),
    ],
)
def test_tiresias(workload: str, mean_jct_s: float, p99_and_makespan_s: tuple[float, float] | None) -> None:
    trace = read_trace(trace_file(f"pollux/{workload}"))
    policy = Las2d((57_600.0,), clock=Rounds(ROUND_S), running_first=False)
    assert agrees(replayed(policy, rigid_jobs(trace, applications()), {}), mean_jct_s, p99_and_makespan_s)


@pytest.mark.parametrize(
    ("workload", "mean_jct_s", "p99_and_makespan_s"),
    [
        ("workloads/workload-1.csv", 4087.1, None),
        ("workloads/workload-2.csv", 6913.9, None),
        ("workloads/workload-3.csv", 3944.0, None),
        ("workloads/workload-4.csv", 5967.8, None),
        ("workloads/workload-5.csv", 5656.2, None),
        ("workloads/workload-6.csv", 5301.875, (48185, 66299)),
        ("workloads-realistic/workload-6.csv", 6685.28, (52011, 72274)),
    ],
)
def test_optimus(workload: str, mean_jct_s: float, p99_and_makespan_s: tuple[float, float] | None) -> None:
    trace = read_trace(trace_file(f"pollux/{workload}"))
    policy = Optimus(Rounds(ROUND_S), MostFree())
    known = speeds(trace, applications(), GPUS_PER_NODE)
    assert agrees(replayed(policy, elastic_jobs(trace, applications()), known), mean_jct_s, p99_and_makespan_s)
