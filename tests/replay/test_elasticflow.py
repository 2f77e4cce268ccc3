"""Deadlines met on ElasticFlow's trace of Microsoft's clusters, 128 A100.

Figures: ElasticFlow's own simulator (github.com/pkusys/ElasticFlow, 04a0109) meets 46.2 % of the 195 deadlines with
``dlas-gpu`` and 74.9 % with its own policy.
"""

from __future__ import annotations

import pytest

from bench._elasticflow import dlas_gpu, elastic_jobs, met_share, rigid_jobs, simulate, speed_tables
from raytide.policies.deadline import Deadline
from raytide.sim.traces import read_elasticflow
from support.scheduling import trace_file


@pytest.fixture
def trace():
    return read_elasticflow(trace_file("elasticflow-microsoft/195job.csv"))


def test_least_attained_service_meets_as_many_as_their_simulator_says(trace):
    result = simulate(dlas_gpu(), rigid_jobs(trace), {})
    assert {str(job.state) for job in result.jobs} == {"succeeded"}
    assert met_share(result) == pytest.approx(0.462, abs=0.03)


def test_most_deadlines_are_met_and_no_promise_is_broken(trace):
    tables = speed_tables(trace_file("elasticflow/throughputs_A100"))
    result = simulate(Deadline(), elastic_jobs(trace, tables), tables)
    assert met_share(result) >= 0.90
    done = [job for job in result.jobs if str(job.state) == "succeeded"]
    assert all(job.ended_s <= job.spec.deadline_s for job in done), "who was admitted was done in time"
    assert all("deadline" in job.reason for job in result.jobs if job not in done)
