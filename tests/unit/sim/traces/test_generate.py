"""Synthetic traces have the shape of Philly's, whose measured figures stand here."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from raytide.sim.traces import (
    Arrivals,
    Lognormal,
    SizeShare,
    SyntheticTrace,
    describe,
    generate,
    read_philly,
    read_trace,
    write_trace,
)

DAY_S = 86_400.0
LONG = SyntheticTrace(jobs=40_000, span_s=42 * DAY_S, seed=3)
PLAIN = Arrivals(sweep_share=0.0, day_swing=0.0, weekend=1.0)
ONE_GPU = (SizeShare(1, 1.0, (Lognormal(1.0, 600.0, 1.0),)),)
PHILLY_SHARES = {1: 0.9317, 2: 0.0221, 4: 0.0227, 8: 0.0200}


@pytest.fixture(scope="module")
def long_trace():
    return generate(LONG)


def test_equal_seeds_give_equal_traces():
    assert generate(SyntheticTrace(seed=1)) == generate(SyntheticTrace(seed=1))
    assert generate(SyntheticTrace(seed=1)) != generate(SyntheticTrace(seed=2))


def test_jobs_are_as_many_as_asked_for_sorted_and_inside_the_span(long_trace):
    assert len(long_trace) == LONG.jobs
    assert [job.job_id for job in long_trace] == [str(number) for number in range(LONG.jobs)]
    assert long_trace == sorted(long_trace, key=lambda job: job.submit_s)
    assert 0 <= long_trace[0].submit_s <= long_trace[-1].submit_s < LONG.span_s


@pytest.mark.parametrize("jobs", [1, 2, 19, 20, 480])
def test_small_traces(jobs):
    trace = generate(SyntheticTrace(jobs=jobs, span_s=10.0, tenants=1))
    assert len(trace) == jobs
    assert {job.tenant for job in trace} == {"tenant-1"}


def test_what_is_written_is_read_back(tmp_path):
    trace = generate(SyntheticTrace(jobs=480))
    write_trace(trace, tmp_path / "trace.csv")
    assert read_trace(tmp_path / "trace.csv") == trace


def test_sizes_have_phillys_shares(long_trace):
    sizes = dict(describe(long_trace).sizes)
    for gpus, share in PHILLY_SHARES.items():
        assert sizes[gpus] / LONG.jobs == pytest.approx(share, abs=0.003)


@pytest.mark.parametrize(
    ("gpus", "p10_s", "p50_s", "p90_s", "mean_s"),
    [
        (1, 62, 1117, 8512, 8301),
        (2, 11, 21, 72740, 30942),
        (4, 138, 17410, 184435, 78762),
        (8, 216, 23683, 351982, 129775),
    ],
)
def test_durations_have_phillys_quantiles(long_trace, gpus, p10_s, p50_s, p90_s, mean_s):
    durations_s = [job.duration_s for job in long_trace if job.gpus == gpus]
    assert np.percentile(durations_s, (10, 50, 90)).tolist() == pytest.approx([p10_s, p50_s, p90_s], rel=0.3)
    assert np.mean(durations_s) == pytest.approx(mean_s, rel=0.25)


def test_sweeps_bunch_arrivals_as_in_philly(long_trace):
    """Half of Philly's jobs come within 8 s of the one before, although the mean is 84 s in its busy 80 days."""
    gaps = describe(long_trace).interarrival_s
    assert 4 <= gaps.p50 <= 20
    assert gaps.mean == pytest.approx(LONG.span_s / LONG.jobs, rel=0.01)
    assert describe(generate(SyntheticTrace(40_000, 42 * DAY_S, arrivals=PLAIN))).interarrival_s.p50 > 50


def test_tenants_are_skewed_as_in_philly():
    counts = Counter(job.tenant for job in generate(SyntheticTrace(20_000, arrivals=PLAIN)))
    assert counts["tenant-1"] / 20_000 == pytest.approx(0.558, abs=0.02)
    assert counts["tenant-2"] / 20_000 == pytest.approx(0.166, abs=0.02)
    even = Counter(job.tenant for job in generate(SyntheticTrace(20_000, tenants=4, tenant_skew=0.0, arrivals=PLAIN)))
    assert min(even.values()) / max(even.values()) > 0.9


def test_days_and_weekends():
    arrivals = Arrivals(sweep_share=0.0, day_swing=0.5, day_peak_h=6.0, weekend=0.5)
    trace = generate(SyntheticTrace(50_000, 28 * DAY_S, sizes=ONE_GPU, arrivals=arrivals))
    hours = Counter(int(job.submit_s // 3600 % 24) for job in trace)
    assert (hours[5] + hours[6]) / (hours[17] + hours[18]) == pytest.approx(1.5 / 0.5, rel=0.15)
    days = Counter(int(job.submit_s // DAY_S % 7) for job in trace)
    assert (days[5] + days[6]) / (days[0] + days[1]) == pytest.approx(0.5, rel=0.1)


def test_a_tail_beyond_all_bounds_is_cut():
    wild = (SizeShare(1, 1.0, (Lognormal(1.0, 600.0, 500.0),)),)
    trace = generate(SyntheticTrace(sizes=wild, longest_s=1e4, arrivals=Arrivals(sweep_tail=0.001)))
    assert {min(job.duration_s for job in trace), max(job.duration_s for job in trace)} == {1.0, 1e4}
    assert max(Counter(job.tenant for job in trace).values()) < 1000, "no sweep is more than a tenth"


def test_the_whole_of_philly_against_a_synthetic_one(public):
    real = describe(read_philly(public("pollux/philly.csv")))
    ours = describe(generate(SyntheticTrace(jobs=real.jobs, span_s=80 * DAY_S)))
    assert ours.gpu_hours == pytest.approx(real.gpu_hours, rel=0.15)
    for name in ("p10", "p50", "p90", "p99", "mean"):
        assert getattr(ours.duration_s, name) == pytest.approx(getattr(real.duration_s, name), rel=0.15)
    for gpus, share in PHILLY_SHARES.items():
        assert dict(real.sizes)[gpus] / real.jobs == pytest.approx(share, abs=0.0001)
