"""Deadlines met on ElasticFlow's trace of Microsoft's clusters, 128 A100.

Figures: ElasticFlow's own simulator (github.com/pkusys/ElasticFlow, 04a0109) meets 46.2 % of the 195 deadlines with
``dlas-gpu`` and 74.9 % with its own policy.
"""

from __future__ import annotations

import pytest

from bench._elasticflow import dlas_gpu, met, rigid_jobs, simulate
from raytide.sim.traces import read_elasticflow
from support.scheduling import trace_file


@pytest.fixture
def trace():
    return read_elasticflow(trace_file("elasticflow-microsoft/195job.csv"))


def test_least_attained_service_meets_as_many_as_their_simulator_says(trace):
    result = simulate(dlas_gpu(), rigid_jobs(trace), {})
    assert {str(job.state) for job in result.jobs} == {"succeeded"}
    share = sum(map(met, result.jobs)) / len(result.jobs)
    assert share == pytest.approx(0.462, abs=0.03)
