from __future__ import annotations

import pytest

from raytide.core import Node, Tenant, TenantTree
from raytide.core.events import NodeJoined, NodeLost
from raytide.errors import ConfigError
from raytide.policies.fifo import Fifo
from raytide.policies.placement import Count
from raytide.sim import Costs, SimOptions, simulate
from raytide.sim.traces import TraceJob

TRACE = [TraceJob("a", "x", 0.0, 8, 10.0, "resnet", deadline_s=50.0), TraceJob("b", "y", 3.0, 4, 5.0)]


def ends(result) -> dict[str, float | None]:
    return {job.job: job.ended_s for job in result.jobs}


def test_names_and_objects_are_the_same():
    assert ends(simulate(TRACE, cluster="1x8", policy="fifo")) == {"a": 10.0, "b": 15.0}
    assert ends(simulate(TRACE, [Node("one", 8)], Fifo(), Count())) == {"a": 10.0, "b": 15.0}


def test_jobs_are_rigid_and_keep_what_the_trace_says():
    (spec, _) = (job.spec for job in simulate(TRACE, "1x8").jobs)
    assert (spec.tenant, spec.model, spec.deadline_s, spec.duration_s) == ("x", "resnet", 50.0, 10.0)
    assert str(spec.requested_shape) == "8 replicas"
    assert spec.least_shape == spec.requested_shape


def test_options():
    told: list[tuple[int, int]] = []
    faults = [(4.0, NodeLost("n0")), (20.0, NodeJoined(Node("n1", 8)))]
    tenants = TenantTree([Tenant("y", limit_gpus=2)])
    options = SimOptions(Costs(start_s=2.0, resume_s=3.0), tenants, faults, lambda *counts: told.append(counts))
    result = simulate(TRACE, "1x8", options=options)
    assert ends(result) == {"a": 20.0 + 3.0 + 8.0, "b": 3.0}
    assert str(result.jobs[1].state) == "refused"
    assert told[0] == (0, 2)
    assert told[-1] == (2, 2)


def test_a_job_without_a_duration_is_refused_and_the_way_out_is_named():
    trace = [*TRACE, TraceJob("c", "x", 0.0, 1, None), TraceJob("d", "x", 0.0, 1, None)]
    with pytest.raises(ConfigError, match=r"2 of 4 jobs have no duration, first 'c'.*raytide\.sim\.pollux"):
        simulate(trace)


def test_an_empty_trace_is_refused():
    with pytest.raises(ConfigError, match="no jobs"):
        simulate([])


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf")])
def test_costs_are_seconds(cost):
    with pytest.raises(ConfigError, match=r"Costs\.resize_s"):
        Costs(resize_s=cost)
