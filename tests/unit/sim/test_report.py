"""Figures of traces that are short enough to work out by hand."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest

from raytide.core import Tenant, TenantTree
from raytide.sim import Costs, SimOptions, SimResult, simulate
from raytide.sim.report import Run, Window, job_table, summary, tenant_table
from raytide.sim.report.tenants import entitled_gpu_s
from raytide.sim.traces import TraceJob

TWO = [  # a holds all 8 GPUs for 10 s, b comes at 3 s and has to wait for it; c is too large
    TraceJob("a", "x", 0.0, 8, 10.0),
    TraceJob("c", "z", 0.0, 9, 1.0, deadline_s=100.0),
    TraceJob("b", "y", 3.0, 4, 5.0, deadline_s=14.0),
]
PREEMPTED = [TraceJob("long", "x", 0.0, 8, 100.0), TraceJob("short", "x", 40.0, 8, 10.0, deadline_s=52.0)]


def two(**options) -> SimResult:
    return simulate(TWO, "1x8", "fifo", options=SimOptions(**options))


def preempted() -> SimResult:
    return simulate(PREEMPTED, "1x8", "srtf", options=SimOptions(Costs(start_s=2.0, resume_s=5.0)))


def figures(result: SimResult) -> dict:
    return summary(result, job_table(result))


def row(result: SimResult, job: str) -> pd.Series:
    return job_table(result).set_index("job").loc[job]


def test_a_job_that_waited():
    found = row(two(), "b")
    expected = {
        "tenant": "y",
        "gpus": 4,
        "submit_s": 3.0,
        "first_start_s": 10.0,
        "end_s": 15.0,
        "jct_s": 12.0,
        "queue_s": 7.0,
        "run_s": 5.0,
        "gpu_s": 20.0,
        "lost_s": 0.0,
        "resizes": 0,
        "suspensions": 0,
        "state": "succeeded",
        "deadline_s": 14.0,
        "met": False,
        "bounded_slowdown": 1.2,  # 5 s count as 10
    }
    assert {name: found[name] for name in expected} == expected


def test_finish_time_fairness():
    # a: alone to 3 s, then half of the cluster: 3 + 3.5 at 10 s, where it ends in truth; b has the other half to 15 s.
    assert row(two(), "a")["rho"] == pytest.approx(10.0 / 16.0)
    # b: half of 8 GPUs is all it wants.
    assert row(two(), "b")["rho"] == pytest.approx(12.0 / 5.0)


def test_one_start_is_fair():
    alone = simulate(TWO[:1], "1x8", options=SimOptions(Costs(start_s=30.0)))
    assert row(alone, "a")["rho"] == 1.0


def test_a_refused_job_has_no_times():
    found = row(two(), "c")
    assert found[["jct_s", "first_start_s", "bounded_slowdown", "rho"]].isna().all()
    assert (found["state"], found["met"], found["queue_s"]) == ("refused", False, 0.0)
    assert "9 GPUs" in found["reason"]


def test_a_preempted_job_pays_twice():
    long, short = row(preempted(), "long"), row(preempted(), "short")
    assert (long["jct_s"], long["queue_s"], long["run_s"], long["suspensions"]) == (119.0, 12.0, 107.0, 1)
    assert (long["lost_s"], long["lost_gpu_s"]) == (7.0, 56.0)
    assert (short["lost_s"], short["met"]) == (2.0, True)


def test_figures():
    found = figures(two())
    expected = {
        "jobs": 3,
        "succeeded": 2,
        "refused": 1,
        "unfinished": 0,
        "mean_jct_s": 11.0,
        "median_jct_s": 11.0,
        "p95_jct_s": 11.9,
        "p99_jct_s": 11.98,
        "mean_queueing_s": 3.5,
        "mean_bounded_slowdown": 1.1,
        "makespan_s": 15.0,
        "deadlines_met": 0.0,
        "gpu_hours": 100 / 3600,
        "allocated_utilisation": 100 / 120,
        "utilisation": 100 / 120,
        "useful_utilisation": 100 / 120,
        "resize_seconds": 0.0,
        "fragmentation": 0.0,
        "mean_rho": (10 / 16 + 12 / 5) / 2,
        "max_rho": 12 / 5,
        "resizes_per_job": 0.0,
        "suspensions_per_job": 0.0,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found.keys() == expected.keys() | {"classes", "tenants"}


def test_figures_of_costs():
    found = figures(preempted())
    assert found["allocated_utilisation"] == 1.0
    assert found["useful_utilisation"] == pytest.approx((952 - 56 - 16) / 952)
    assert (found["resize_seconds"], found["suspensions_per_job"], found["deadlines_met"]) == (9.0, 0.5, 1.0)


def test_fragmentation_is_what_lies_idle_beside_others_while_somebody_waits():
    three = [TraceJob(name, "x", 0.0, gpus, 10.0) for name, gpus in (("a", 3), ("b", 3), ("c", 4))]
    assert figures(simulate(three, "2x4", "fifo"))["fragmentation"] == pytest.approx(2 / 8)
    assert figures(simulate(three[:2], "2x4", "fifo"))["fragmentation"] == 0.0


def test_classes():
    sizes = [TraceJob(str(gpus), "x", 0.0, gpus, 10.0 * gpus) for gpus in (1, 2, 8, 9)]
    classes = figures(simulate(sizes, "4x8"))["classes"]
    assert {name: (found["jobs"], found["mean_jct_s"]) for name, found in classes.items()} == {
        "1 GPU": (1, 10.0),
        "2 to 8 GPUs": (2, 50.0),
        "more than 8 GPUs": (1, 90.0),
    }


@pytest.mark.parametrize(
    ("tenants", "x_gpu_s", "y_gpu_s"),
    [
        ([], 24.0 + 28.0, 28.0 + 20.0),
        ([Tenant("x", weight=3.0)], 24.0 + 42.0, 14.0 + 20.0),
        ([Tenant("y", guaranteed_gpus=4)], 24.0 + 14.0, 28.0 + 20.0),
    ],
    ids=["even", "weights", "guarantee"],
)
def test_what_tenants_are_entitled_to(tenants, x_gpu_s, y_gpu_s):
    result = two(tenants=TenantTree(tenants))
    table = tenant_table(result, job_table(result)).set_index("tenant")
    assert table["entitled_gpu_hours"].tolist() == pytest.approx([x_gpu_s / 3600, y_gpu_s / 3600])
    assert table["received"].tolist() == pytest.approx([80.0 / x_gpu_s, 20.0 / y_gpu_s])
    assert table["share"].tolist() == pytest.approx([0.8, 0.2])
    assert table["jobs"].tolist() == [1, 1], "a tenant whose only job can never run is entitled to nothing"


def test_entitlement_goes_down_the_tree():
    tree = TenantTree([Tenant("org"), Tenant("x", "org"), Tenant("y", "org")])
    trace = [TraceJob(name, name, 0.0, 8, 10.0) for name in "xyz"]
    found = entitled_gpu_s(simulate(trace, "1x8", "fifo", options=SimOptions(tenants=tree)))
    assert found == pytest.approx({"x": 20.0, "y": 20.0 + 40.0, "z": 40.0 + 40.0 + 80.0})


def test_a_trace_that_begins_late_is_looked_at_from_there():
    later = [TraceJob(job.job_id, job.tenant, job.submit_s + 1e6, job.gpus, job.duration_s) for job in TWO[:1]]
    found = figures(simulate(later, "1x8"))
    assert (found["makespan_s"], found["utilisation"]) == (10.0, 1.0)


def test_nothing_ran():
    result = simulate(TWO[1:2], "1x8")
    found = figures(result)
    assert (found["refused"], found["mean_jct_s"], found["utilisation"], found["tenants"]) == (1, None, None, {})
    assert Window.of(result).span_s == 0.0
    json.dumps(found, allow_nan=False)


def test_figures_are_json():
    found = figures(two())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert not any(isinstance(value, float) and math.isnan(value) for value in found.values())


def test_a_run_has_its_table():
    run = Run.of(two())
    assert run.jobs.equals(job_table(run.result))
