from __future__ import annotations

import time
from itertools import pairwise

import pytest

from raytide.sim.traces import TraceError, TraceJob, read_philly

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"


def test_submissions_count_from_the_first_and_clusters_are_tenants(write):
    path = write(HEADER, "2017-10-09 07:01:55,66.0,1,66.0,11cb48", "2017-10-08 07:01:50,5,8,40,6214e9")
    assert read_philly(path) == [TraceJob("1", "6214e9", 0.0, 8, 5.0), TraceJob("0", "11cb48", 86405.0, 1, 66.0)]


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "UTC"])
def test_the_machines_time_zone_does_not_matter(write, monkeypatch, zone):
    """Clocks were set back on that night."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        path = write(HEADER, "2017-11-05 00:30:00,1,1,1,t", "2017-11-05 02:30:00,1,1,1,t")
        assert read_philly(path)[1].submit_s == 7200.0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_malformed_date(write):
    with pytest.raises(TraceError, match=r"line 3, column 'timestamp': 'None' is not a date such as 2017-10-09"):
        read_philly(write(HEADER, "2017-10-09 07:01:55,66.0,1,66.0,t", "None,66.0,1,66.0,t"))


def test_the_whole_trace_reads_fast(public):
    path = public("pollux/philly.csv")
    started_s = time.process_time()
    jobs = read_philly(path)
    assert time.process_time() - started_s < 2.0, "some tenths of a second on an idle core"
    assert len(jobs) == 82_247
    assert len({job.tenant for job in jobs}) == 15
    assert jobs[0].submit_s == 0.0
    assert all(a.submit_s <= b.submit_s for a, b in pairwise(jobs))
    assert sum(job.gpus == 1 for job in jobs) == 76_627
