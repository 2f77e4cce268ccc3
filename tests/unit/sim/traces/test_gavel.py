from __future__ import annotations

import pytest

from raytide.sim.traces import TraceError, TraceJob, read_gavel

NEW = 'ResNet-18 (batch size 128)\tpython3 main.py "\timage\t--num_steps\t1\t925982\t4\t1\t-1.000000\t42.5'
OLD = "ResNet-18 (batch size 128)\tcd x && python3 main.py\t--num_steps\t1\t925982\t42.500000\t4"
JOB = TraceJob("0", "default", 42.5, 4, None, "ResNet-18", 128, 925982.0)


@pytest.mark.parametrize("row", [NEW, OLD])
def test_both_column_sets(write, row):
    assert read_gavel(write(row)) == [JOB]


def test_a_model_without_batch_size(write):
    (job,) = read_gavel(write(OLD.replace(" (batch size 128)", "")))
    assert (job.model, job.batch_size) == ("ResNet-18", 0)


@pytest.mark.parametrize(
    ("row", "column", "problem"),
    [
        (NEW.replace("925982", "many"), "total_steps", "'many' is not a number"),
        (NEW.replace("\t4\t", "\t0\t"), "scale_factor", "0 is not"),
        (NEW.replace("42.5", "nan"), "arrival_time", "nan is not finite"),
        ("\t" + NEW.split("\t", 1)[1], "job_type", "'' is not a job type"),
        (OLD, "priority_weight", "7 cells under 10 columns"),
    ],
)
def test_malformed_rows(write, row, column, problem):
    with pytest.raises(TraceError, match=problem) as caught:
        read_gavel(write(NEW, "", row))
    assert (caught.value.line, caught.value.column) == (3, column)


def test_an_unknown_number_of_cells(write):
    with pytest.raises(TraceError, match=r"line 1: 3 cells. Known column sets are 10: job_type, command, .*; 7: "):
        read_gavel(write("a\tb\tc"))


def test_an_empty_file(write):
    with pytest.raises(TraceError, match="it is empty"):
        read_gavel(write(""))


@pytest.mark.parametrize(("name", "count"), [("max_min_fairness", 96), ("minimize_makespan", 100)])
def test_public_traces(public, name, count):
    jobs = read_gavel(public(f"gavel/{name}.trace"))
    assert len(jobs) == count
    assert jobs == sorted(jobs, key=lambda job: job.submit_s)
    assert {job.gpus for job in jobs} == {1, 2, 4}
    assert {job.model for job in jobs if job.batch_size == 0} == {"A3C", "CycleGAN"} & {job.model for job in jobs}
