"""Pollux's policy on its authors' workload 6: 160 jobs, 16 nodes of 4 GPUs, rounds of 60 s, 30 s per start and change.

``pollux_workload6_jct_s`` is the mean JCT. The authors' own simulator reached 2446 s, and 2484 s when it ran again;
wanted are at most 2617 s.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import fmean

import _pollux
from _support import seed_and_folder
from threadpoolctl import threadpool_limits

from raytide.policies.pollux import Pollux
from raytide.sim.pollux import load_applications
from raytide.sim.report import job_table
from raytide.sim.traces import read_trace

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
CHANGE_S = 30.0


def main(seed: int, out: Path | None) -> None:
    """Simulate and print."""
    applications = load_applications(TRACES / "pollux" / "traces")
    trace = read_trace(TRACES / "pollux" / "workloads" / "workload-6.csv")
    began_s = time.process_time()
    with threadpool_limits(1):  # small linear systems: more threads only wait for one another
        result = _pollux.simulate(Pollux(seed), trace, applications, CHANGE_S)
    seconds = time.process_time() - began_s
    if out is not None:
        job_table(result).to_csv(out / f"pollux_6_seed{seed}.csv", index=False)
    print(json.dumps({"pollux_workload6_jct_s": round(fmean(_pollux.jcts_s(result)), 1), "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main(*seed_and_folder(__doc__))
