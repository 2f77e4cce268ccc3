from __future__ import annotations

import pytest

from raytide.sim.traces import TraceJob, describe, read_default, read_trace, write_trace

PLAIN = [TraceJob("a", "t", 0.0, 1, 10.0), TraceJob("b", "u", 0.125, 8, 1 / 3)]


def test_plain_jobs_have_the_five_columns(tmp_path):
    write_trace(PLAIN, tmp_path / "trace.csv")
    assert (tmp_path / "trace.csv").read_text() == (
        f"job_id,tenant,submit_time,num_gpus,duration\na,t,0,1,10\nb,u,0.125,8,{1 / 3!r}\n"
    )


@pytest.mark.parametrize(
    "jobs",
    [
        PLAIN,
        [TraceJob("a", "t", 0, 1, None)],
        [*PLAIN, TraceJob("c", 'with "quotes", and\nlines', 1.0, 1, None, "bert (base)", 32, 1e9, 5.5)],
        [TraceJob("a", "t", 0.0, 1, 1.0, batch_size=4), TraceJob("b", "t", 0.0, 1, 1e300)],
        [TraceJob("a", "t", 0.0, 1, 1.0, deadline_s=0.0), TraceJob("b", "t", 5e-324, 1, 0.1 + 0.2)],
    ],
)
def test_what_is_written_is_read_back(tmp_path, jobs):
    write_trace(jobs, tmp_path / "trace.csv")
    assert read_trace(tmp_path / "trace.csv") == jobs


def test_jobs_out_of_order_are_read_back_in_order(tmp_path):
    write_trace(PLAIN[::-1], tmp_path / "trace.csv")
    assert read_default(tmp_path / "trace.csv") == PLAIN


@pytest.mark.parametrize(("name", "jobs", "gpus", "load"), [("480", 480, 128, 2.0), ("1day", 1652, 256, 0.95)])
def test_slices_of_philly(public, name, jobs, gpus, load):
    trace = read_default(public(f"philly-slices/philly_{name}.csv"))
    assert len(trace) == jobs
    assert trace == sorted(trace, key=lambda job: job.submit_s)
    assert trace[0].submit_s == 0
    assert describe(trace).offered_load(gpus) == pytest.approx(load, rel=0.03)
