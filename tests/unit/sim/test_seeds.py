from __future__ import annotations

import pytest

from raytide.sim.report import mean_figures, spread_figures

RUNS = [
    {"jct_s": 10.0, "met": None, "tenants": {"a": {"gpu_hours": 1.0}}},
    {"jct_s": 20.0, "met": 0.5, "tenants": {"a": {"gpu_hours": 3.0}, "b": {"gpu_hours": 7.0}}},
]


def test_means_are_over_the_seeds_that_have_the_figure():
    tenants = {"a": {"gpu_hours": 2.0}, "b": {"gpu_hours": 7.0}}
    assert mean_figures(RUNS) == {"jct_s": 15.0, "met": 0.5, "tenants": tenants}


def test_spread_is_the_sample_standard_deviation():
    root = pytest.approx(2**0.5)
    tenants = {"a": {"gpu_hours": root}, "b": {"gpu_hours": None}}
    assert spread_figures(RUNS) == {"jct_s": pytest.approx(5 * 2**0.5), "met": None, "tenants": tenants}


def test_a_figure_that_never_exists():
    assert mean_figures([{"met": None}, {"met": None}]) == spread_figures([{"met": None}] * 2) == {"met": None}
