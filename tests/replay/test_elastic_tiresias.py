"""Elastic-Tiresias against Tiresias on a slice of Philly, with measured A100 speeds.

Figures: an independent prototype of the same rules, which the baseline meets to the second.
"""

from __future__ import annotations

import pytest

from bench._philly import mean_jct_s, sim_jobs, simulate, speed_tables
from raytide.policies.elastic_tiresias import ElasticTiresias
from raytide.policies.tiresias import Tiresias
from raytide.sim.traces import read_trace
from support.scheduling import trace_file


@pytest.mark.parametrize(
    ("gpus", "cost_s", "baseline_s", "elastic_s"),
    [(128, 0.0, 25073, 13999), (128, 30.0, 25818, 14550), (256, 0.0, 11259, 7703), (256, 30.0, 11343, 8015)],
)
def test_elasticity_shortens_jobs(gpus, cost_s, baseline_s, elastic_s):
    tables = speed_tables(trace_file("elasticflow/throughputs_A100"))
    trace = read_trace(trace_file("philly-slices/philly_480.csv"))
    rigid = mean_jct_s(simulate(Tiresias(), sim_jobs(trace, tables, elastic=False), tables, gpus, cost_s))
    assert rigid == pytest.approx(baseline_s, abs=0.51)
    elastic = mean_jct_s(simulate(ElasticTiresias(), sim_jobs(trace, tables, elastic=True), tables, gpus, cost_s))
    assert elastic == pytest.approx(elastic_s, rel=0.01)
    if gpus == 128:
        assert elastic / rigid <= 0.60
