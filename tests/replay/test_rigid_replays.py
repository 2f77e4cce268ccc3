"""Rigid replays of real traces: average JCT as two independent simulators of others have it, to 0.1 s.

Figures: Tiresias' published simulator (github.com/SymbioticLab/Tiresias, 959f9b0) and a second implementation of the
same rules agree on all of them; for least attained service, with demotions at their exact instants.
"""

from __future__ import annotations

from statistics import fmean

import pytest

from raytide.core import Controller, ControllerConfig, rigid
from raytide.policies.fifo import Fifo
from raytide.policies.first_fit import FirstFit
from raytide.policies.las2d import Las2d
from raytide.policies.placement import Count
from raytide.policies.shortest import Srgf, Srtf
from raytide.sim.simulation import SimJob, Simulation
from raytide.sim.traces import read_trace
from raytide.sim.workload import Fixed
from support.scheduling import nodes, trace_file

POLICIES = [Fifo, FirstFit, Srtf, Srgf, Las2d]
EXPECTED = {
    ("philly_480", 128): [45460.4, 27215.1, 15967.0, 14719.3, 19394.8],
    ("philly_480", 256): [11846.8, 11427.3, 11076.7, 11008.9, 11121.0],
    ("philly_1day", 256): [6299.2, 6298.7, 5167.4, 5164.5, 5242.3],
}
CASES = [
    pytest.param(trace, gpus, policy, mean_s, id=f"{trace}-{gpus}-{policy.__name__}")
    for (trace, gpus), means in EXPECTED.items()
    for policy, mean_s in zip(POLICIES, means, strict=True)
]


@pytest.mark.parametrize(("trace", "gpus", "policy", "mean_s"), CASES)
def test_mean_jct(trace, gpus, policy, mean_s):
    jobs = read_trace(trace_file(f"philly-slices/{trace}.csv"))
    specs = [rigid(j.job_id, j.tenant, j.submit_s, j.gpus, j.duration_s) for j in jobs]
    controller = Controller(policy(), Count(), nodes(*[8] * (gpus // 8)), config=ControllerConfig(instant=True))
    result = Simulation(controller, [SimJob(spec, Fixed(spec.duration_s)) for spec in specs]).run()
    controller.validate()
    assert {str(job.state) for job in result.jobs} == {"succeeded"}
    assert fmean(job.ended_s - job.spec.submitted_s for job in result.jobs) == pytest.approx(mean_s, abs=0.0501)
