"""What policies are worth: Elastic-Tiresias against Tiresias on a slice of Philly, at several costs of a change.

``elastic_tiresias_vs_tiresias`` is the ratio of mean JCTs at 30 s per change on 128 GPUs; ``sweep`` has the same ratio
at 0, 2, 30 and 60 s, the rigid baseline paying for its preemptions as well. What stop-free scaling is worth is the
difference between a few seconds and a restart.
"""

from __future__ import annotations

import json
from pathlib import Path

from _philly import mean_jct_s, sim_jobs, simulate, speed_tables
from _support import simulation_folder

from raytide.policies.elastic_tiresias import ElasticTiresias
from raytide.policies.las2d import Las2d
from raytide.policies.tiresias import Tiresias
from raytide.sim.report import job_table
from raytide.sim.traces import read_trace

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
GPUS = 128
COSTS_S = (0.0, 2.0, 30.0, 60.0)


def main(out: Path | None) -> None:
    """Simulate and print."""
    tables = speed_tables(TRACES / "elasticflow" / "throughputs_A100")
    trace = read_trace(TRACES / "philly-slices" / "philly_480.csv")
    means: dict[tuple[str, float], float] = {}
    for policy, elastic in ((Tiresias, False), (Las2d, False), (ElasticTiresias, True)):
        for cost_s in COSTS_S:
            result = simulate(policy(), sim_jobs(trace, tables, elastic=elastic), tables, GPUS, cost_s)
            means[policy.name, cost_s] = mean_jct_s(result)
            if out is not None:
                job_table(result).to_csv(out / f"{policy.name}_{cost_s:g}s.csv", index=False)

    def ratio(baseline: str, cost_s: float) -> float:
        return round(means["elastic_tiresias", cost_s] / means[baseline, cost_s], 4)

    figures = {
        "elastic_tiresias_vs_tiresias": ratio("tiresias", 30.0),
        "elastic_tiresias_vs_las2d": ratio("las2d", 30.0),
        "baseline_mean_jct_s": round(means["tiresias", 30.0], 1),
        "sweep": {f"{cost_s:g}": ratio("tiresias", cost_s) for cost_s in COSTS_S},
        "mean_jct_s": {f"{cost_s:g}": round(means["elastic_tiresias", cost_s], 1) for cost_s in COSTS_S},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(simulation_folder(__doc__))
