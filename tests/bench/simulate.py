"""How fast the simulator is: slices and the whole of Philly's trace, rigid, on one core.

``growth`` is the exponent of run time over the number of jobs (10k, 20k, 40k, 80k jobs of the trace on a cluster of a
size at which its beginning is contended): 1 is linear.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from _support import exponent, simulation_folder

from raytide.core import Controller, ControllerConfig, JobSpec, Node, rigid
from raytide.core.policy import Policy
from raytide.policies.fifo import Fifo
from raytide.policies.las2d import Las2d
from raytide.policies.placement import Count
from raytide.policies.tide import Tide
from raytide.sim.simulation import SimJob, SimResult, Simulation
from raytide.sim.traces import read_trace
from raytide.sim.workload import Fixed

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
POLICIES: dict[str, Callable[[], Policy]] = {"fifo": Fifo, "las2d": Las2d, "tide": Tide}
SIZES = (10_000, 20_000, 40_000, 80_000)


def load(name: str) -> list[JobSpec]:
    jobs = read_trace(TRACES / name)
    return [rigid(j.job_id, j.tenant, j.submit_s, j.gpus, j.duration_s) for j in jobs]


def run(policy: Policy, specs: Sequence[JobSpec], nodes: int) -> tuple[float, SimResult]:
    """Seconds of processor time, and the result."""
    started_s = time.process_time()
    cluster = [Node(f"n{i}", 8) for i in range(nodes)]
    controller = Controller(policy, Count(), cluster, config=ControllerConfig(instant=True))
    result = Simulation(controller, [SimJob(spec, Fixed(spec.duration_s or 1.0)) for spec in specs]).run()
    return time.process_time() - started_s, result


def write_jobs(result: SimResult, path: Path) -> None:
    """The table behind the figures."""
    lines = ["job,submit_s,first_start_s,end_s"]
    lines += [f"{j.job},{j.spec.submitted_s},{j.first_start_s},{j.ended_s}" for j in result.jobs]
    path.write_text("\n".join(lines) + "\n")


def main(out: Path | None) -> None:
    """Measure and print."""
    day = load("philly-slices/philly_1day.csv")
    whole = load("pollux/philly.csv")
    day_s = min(run(Fifo(), day, 32)[0] for _ in range(3))
    seconds: dict[str, float] = {}
    for name, make in POLICIES.items():
        seconds[name], result = run(make(), whole, 96)
        if out is not None:
            write_jobs(result, out / f"philly_{name}.csv")
    growth = {
        name: round(exponent(SIZES, [run(make(), whole[:size], 96)[0] for size in SIZES]), 3)
        for name, make in POLICIES.items()
    }
    figures = {
        "philly_1day_fifo_s": round(day_s, 3),
        "philly_82k_s": {name: round(s, 2) for name, s in seconds.items()},
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "growth": growth,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(simulation_folder(__doc__))
