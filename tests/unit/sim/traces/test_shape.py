from __future__ import annotations

import math

import pytest

from raytide.errors import ConfigError
from raytide.sim.traces import PHILLY_SIZES, Arrivals, Lognormal, SizeShare, SyntheticTrace

PART = Lognormal(1.0, 60.0, 1.0)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Lognormal(0.0, 60.0, 1.0), "Lognormal.share"),
        (lambda: Lognormal(1.0, -1.0, 1.0), "Lognormal.median_s"),
        (lambda: Lognormal(1.0, 60.0, math.nan), "Lognormal.sigma"),
        (lambda: SizeShare(0, 1.0, (PART,)), "SizeShare.gpus"),
        (lambda: SizeShare(1.5, 1.0, (PART,)), "SizeShare.gpus"),
        (lambda: SizeShare(1, math.inf, (PART,)), "SizeShare.share"),
        (lambda: SizeShare(1, 1.0, ()), "SizeShare.durations"),
        (lambda: Arrivals(sweep_share=1.1), "Arrivals.sweep_share"),
        (lambda: Arrivals(day_swing=-0.1), "Arrivals.day_swing"),
        (lambda: Arrivals(weekend=0.0), "Arrivals.weekend"),
        (lambda: Arrivals(largest_sweep=0), "Arrivals.largest_sweep"),
        (lambda: SyntheticTrace(jobs=0), "SyntheticTrace.jobs"),
        (lambda: SyntheticTrace(jobs=1.5), "SyntheticTrace.jobs"),
        (lambda: SyntheticTrace(span_s=0.0), "SyntheticTrace.span_s"),
        (lambda: SyntheticTrace(tenants=0), "SyntheticTrace.tenants"),
        (lambda: SyntheticTrace(seed=-1), "SyntheticTrace.seed"),
        (lambda: SyntheticTrace(tenant_skew=math.nan), "SyntheticTrace.tenant_skew"),
        (lambda: SyntheticTrace(longest_s=0.5), "SyntheticTrace.longest_s"),
        (lambda: SyntheticTrace(sizes=()), "SyntheticTrace.sizes"),
    ],
)
def test_refuses(make, field: str):
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field


def test_phillys_shares_are_all_of_it():
    assert sum(size.share for size in PHILLY_SIZES) == pytest.approx(1.0)
    for size in PHILLY_SIZES:
        assert sum(part.share for part in size.durations) == pytest.approx(1.0, abs=0.002)
