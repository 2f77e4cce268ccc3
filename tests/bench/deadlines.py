"""Deadlines met: ElasticFlow's trace of Microsoft's clusters on 128 A100, with 30 s for every start and change of size.

``deadlines_met`` is the share of all 195 jobs that were done in time under ``deadline``; refused and late jobs were
not, and 11 cannot be on any number of GPUs. ``dlas_deadlines_met`` is the same for rigid jobs under ElasticFlow's
``dlas-gpu``. ``elsewhere`` has other traces, besides a baseline that makes minimum shares anew by deadline at every
event and refuses at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from _elasticflow import MinimumShares, dlas_gpu, elastic_jobs, met_share, rigid_jobs, simulate, speed_tables
from _support import simulation_folder

from raytide.policies.deadline import Deadline
from raytide.sim.report import job_table
from raytide.sim.traces import TraceJob, read_elasticflow, read_microsoft

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
CLUSTERS = {"cluster02": 64, "cluster03": 128, "cluster06": 64, "cluster10": 8}
"""Microsoft's, with the GPUs they get here."""
JOBS = 300
PHILLY_GPUS = 16


def main(out: Path | None) -> None:
    """Simulate and print."""
    tables = speed_tables(TRACES / "elasticflow" / "throughputs_A100")
    trace = read_elasticflow(TRACES / "elasticflow-microsoft" / "195job.csv")
    results = {
        "deadline": simulate(Deadline(), elastic_jobs(trace, tables), tables),
        "minimum_shares": simulate(MinimumShares(), elastic_jobs(trace, tables), tables),
        "dlas": simulate(dlas_gpu(), rigid_jobs(trace), {}),
    }
    elsewhere = {}
    for name, (jobs, gpus) in other_traces().items():
        pair = [simulate(policy, elastic_jobs(jobs, tables), tables, gpus) for policy in (Deadline(), MinimumShares())]
        elsewhere[name] = [met_share(result) for result in pair]
        results[name] = pair[0]
    if out is not None:
        for name, result in results.items():
            job_table(result).to_csv(out / f"{name}.csv", index=False)
    figures = {
        "deadlines_met": met_share(results["deadline"]),
        "minimum_shares_deadlines_met": met_share(results["minimum_shares"]),
        "dlas_deadlines_met": met_share(results["dlas"]),
        "admitted_but_late": sum(str(job.state) == "succeeded" for job in results["deadline"].jobs)
        - round(met_share(results["deadline"]) * len(trace)),
        "elsewhere": elsewhere,
    }
    print(json.dumps(figures))


def other_traces() -> dict[str, tuple[Sequence[TraceJob], int]]:
    """Jobs and GPUs by name: beginnings of other clusters' traces, and a trace made from Philly's."""
    archive = TRACES / "elasticflow-microsoft" / "elasticflow-traces.tar.gz"
    found: dict[str, tuple[Sequence[TraceJob], int]] = {}
    for name, gpus in CLUSTERS.items():
        jobs = sorted(read_microsoft(archive, name), key=lambda job: job.submit_s)
        found[f"{name}@{gpus}"] = (jobs[:JOBS], gpus)
    philly = read_elasticflow(TRACES / "elasticflow" / "traces" / "philly_103959.csv")
    found[f"philly_103959@{PHILLY_GPUS}"] = (philly, PHILLY_GPUS)
    return found


if __name__ == "__main__":
    main(simulation_folder(__doc__))
