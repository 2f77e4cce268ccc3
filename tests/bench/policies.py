"""What policies are worth.

* ``elastic_tiresias_vs_tiresias``: the ratio of mean JCTs at 30 s per change, 128 GPUs, on a slice of Philly; ``sweep``
  has the same ratio at 0, 2, 30 and 60 s, the rigid baseline paying for its preemptions as well. ``pollux_sweep`` is
  that on Pollux's workloads 1 to 6, with the batch that these give each job; the ratio is of means over all six.
* ``tide_vs_pollux_30s`` and ``_2s``: mean JCT on Pollux's workloads 1 to 6 over that of Pollux, at 30 s per change (a
  restart) and at 2 s (stop-free); ``tide_sweep`` at every cost. ``max_rho``: the worst finish-time fairness at 30 s.
  ``_undeclared``: the same if nobody says how many epochs jobs have.
* ``deadlines_met``: the share of ElasticFlow's 195 jobs that are done in time on 128 A100 under ``deadline``;
  ``deadlines.py`` has more of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import _elasticflow
import _pollux
import pandas as pd
from _philly import mean_jct_s, sim_jobs, simulate, speed_tables
from _support import say, simulation_folder
from threadpoolctl import threadpool_limits

from raytide.policies.deadline import Deadline
from raytide.policies.elastic_tiresias import ElasticTiresias
from raytide.policies.las2d import Las2d
from raytide.policies.tide import Tide
from raytide.policies.tiresias import Tiresias
from raytide.sim.pollux import load_applications
from raytide.sim.report import job_table
from raytide.sim.simulation import SimResult
from raytide.sim.traces import read_trace

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
GPUS = 128
COSTS_S = (0.0, 2.0, 30.0, 60.0)
WORKLOADS = range(1, 7)


def philly(out: Path | None) -> dict[str, Any]:
    """Elastic-Tiresias against its rigid origin."""
    tables = speed_tables(TRACES / "elasticflow" / "throughputs_A100")
    trace = read_trace(TRACES / "philly-slices" / "philly_480.csv")
    means: dict[tuple[str, float], float] = {}
    for policy, elastic in ((Tiresias, False), (Las2d, False), (ElasticTiresias, True)):
        for cost_s in COSTS_S:
            result = simulate(policy(), sim_jobs(trace, tables, elastic=elastic), tables, GPUS, cost_s)
            means[policy.name, cost_s] = mean_jct_s(result)
            write(result, out, f"{policy.name}_{cost_s:g}s")

    def ratio(baseline: str, cost_s: float) -> float:
        return round(means["elastic_tiresias", cost_s] / means[baseline, cost_s], 4)

    return {
        "elastic_tiresias_vs_tiresias": ratio("tiresias", 30.0),
        "elastic_tiresias_vs_las2d": ratio("las2d", 30.0),
        "baseline_mean_jct_s": round(means["tiresias", 30.0], 1),
        "sweep": {f"{cost_s:g}": ratio("tiresias", cost_s) for cost_s in COSTS_S},
        "mean_jct_s": {f"{cost_s:g}": round(means["elastic_tiresias", cost_s], 1) for cost_s in COSTS_S},
    }


def pollux_sweep(out: Path | None) -> dict[str, Any]:
    """Elastic-Tiresias against its rigid origin on Pollux's workloads, whose batches stay as they are."""
    applications = load_applications(TRACES / "pollux" / "traces")
    rows = []
    for number in WORKLOADS:
        trace = read_trace(TRACES / "pollux" / "workloads" / f"workload-{number}.csv")
        for cost_s in COSTS_S:
            found = []
            for policy, elastic in ((Tiresias(), False), (ElasticTiresias(), True)):
                result = _pollux.simulate_fixed_batch(policy, trace, applications, cost_s, elastic=elastic)
                write(result, out, f"{policy.name}_pollux{number}_{cost_s:g}s")
                found.append(mean_s([result]))
            rows.append((number, cost_s, *found))
    table = pd.DataFrame(rows, columns=["workload", "change_s", "tiresias_s", "elastic_tiresias_s"])
    table["ratio"] = table["elastic_tiresias_s"] / table["tiresias_s"]
    say(table.round(3).to_string(index=False))
    if out is not None:
        table.to_csv(out / "pollux_sweep.csv", index=False)
    means = table.groupby("change_s")[["tiresias_s", "elastic_tiresias_s"]].mean()
    ratios = means["elastic_tiresias_s"] / means["tiresias_s"]
    return {
        "pollux_sweep": {f"{cost_s:g}": round(float(ratios[cost_s]), 4) for cost_s in COSTS_S},
        "pollux_mean_jct_s": {
            f"{cost_s:g}": round(float(means["elastic_tiresias_s"][cost_s]), 1) for cost_s in COSTS_S
        },
    }


def pollux(out: Path | None) -> dict[str, Any]:
    """Tide against Pollux."""
    applications = load_applications(TRACES / "pollux" / "traces")
    traces = [read_trace(TRACES / "pollux" / "workloads" / f"workload-{number}.csv") for number in WORKLOADS]

    def run(change_s: float, *, declared: bool = True) -> list[SimResult]:
        results = []
        for number, trace in zip(WORKLOADS, traces, strict=True):
            results.append(_pollux.simulate(Tide(), trace, applications, change_s, declared=declared))
            write(results[-1], out, f"tide_{number}_{change_s:g}s{'' if declared else '_undeclared'}")
        say(f"tide, {change_s:g} s, {'declared' if declared else 'undeclared'}: {mean_s(results):.1f} s")
        return results

    found = {cost_s: run(cost_s) for cost_s in COSTS_S}
    undeclared = {cost_s: mean_s(run(cost_s, declared=False)) for cost_s in (2.0, 30.0)}
    return {
        "tide_vs_pollux_30s": versus_pollux(mean_s(found[30.0])),
        "tide_vs_pollux_2s": versus_pollux(mean_s(found[2.0])),
        "tide_vs_pollux_30s_undeclared": versus_pollux(undeclared[30.0]),
        "tide_vs_pollux_2s_undeclared": versus_pollux(undeclared[2.0]),
        "max_rho": round(max(rho for result in found[30.0] for rho in _pollux.rhos(result, applications)), 3),
        "tide_sweep": {f"{cost_s:g}": round(mean_s(results), 1) for cost_s, results in found.items()},
        "tide_by_application_s": {f"{cost_s:g}": _pollux.mean_by_application(found[cost_s]) for cost_s in (2.0, 30.0)},
    }


def deadlines(out: Path | None) -> dict[str, Any]:
    """ElasticFlow's trace."""
    tables = _elasticflow.speed_tables(TRACES / "elasticflow" / "throughputs_A100")
    trace = read_trace(TRACES / "elasticflow-microsoft" / "195job.csv")
    result = _elasticflow.simulate(Deadline(), _elasticflow.elastic_jobs(trace, tables), tables)
    write(result, out, "deadline")
    return {"deadlines_met": round(_elasticflow.met_share(result), 4)}


def mean_s(results: list[SimResult]) -> float:
    """Mean over workloads of the mean JCT."""
    return fmean(fmean(_pollux.jcts_s(result)) for result in results)


def versus_pollux(mean_jct_s_: float) -> float:
    return round(mean_jct_s_ / _pollux.POLLUX_MEAN_JCT_S, 4)


def write(result: SimResult, out: Path | None, name: str) -> None:
    """The table behind a figure."""
    if out is not None:
        job_table(result).to_csv(out / f"{name}.csv", index=False)


def main(out: Path | None) -> None:
    """Simulate and print."""
    with threadpool_limits(1):  # small linear systems: more threads only wait for one another
        print(json.dumps({**philly(out), **pollux_sweep(out), **pollux(out), **deadlines(out)}))


if __name__ == "__main__":
    main(simulation_folder(__doc__))
