from __future__ import annotations

import math

import pytest

from raytide.errors import ConfigError
from raytide.sim.traces import Percentiles, TraceJob, describe


def jobs(*rows: tuple[float, int, float | None], tenant: str = "t") -> list[TraceJob]:
    return [TraceJob(f"{tenant}{i}", tenant, submit, gpus, length) for i, (submit, gpus, length) in enumerate(rows)]


def test_counts_work_and_gaps():
    told = describe([*jobs((100, 1, 3600), (0, 8, 1800)), *jobs((40, 1, None), tenant="a")])
    assert (told.jobs, told.span_s, told.gpu_hours, told.unknown_durations) == (3, 100.0, 5.0, 1)
    assert told.tenants == (("t", 2), ("a", 1))
    assert told.sizes == ((1, 2), (8, 1))
    assert told.duration_s == Percentiles(1800, 1980, 2700, 3420, pytest.approx(3582), 3600, 2700)
    assert (told.interarrival_s.least, told.interarrival_s.p50, told.interarrival_s.mean) == (40, 50, 50)


def test_tenants_of_equal_count_come_by_name():
    assert describe([*jobs((0, 1, 1)), *jobs((0, 1, 1), tenant="a")]).tenants == (("a", 1), ("t", 1))


def test_offered_load():
    told = describe(jobs((0, 4, 50), (100, 1, 200)))
    assert told.offered_load(4) == pytest.approx(1.0)
    assert told.offered_load(1) == pytest.approx(4.0)
    with pytest.raises(ConfigError, match="0 GPUs can do no work"):
        told.offered_load(0)


def test_one_job_alone():
    told = describe(jobs((7, 2, None)))
    assert (told.span_s, told.interarrival_s, told.duration_s, told.gpu_hours) == (0.0, None, None, 0.0)
    assert told.offered_load(1) == math.inf


def test_no_jobs():
    with pytest.raises(ConfigError, match="there are none"):
        describe([])


def test_the_order_of_jobs_does_not_matter():
    rows = jobs((0, 1, 5), (9, 2, 6), (4, 4, 0.1))
    assert describe(rows) == describe(rows[::-1])
