"""What any reader of comma-separated traces does; told with the default format."""

from __future__ import annotations

import pickle

import pytest

from raytide.errors import RaytideError
from raytide.sim.traces import DEFAULT_TENANT, TraceError, TraceJob, read_default, read_pollux

HEADER = "job_id,tenant,submit_time,num_gpus,duration"


def refused(path) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read_default(path)
    assert str(caught.value).startswith(str(path)), "the file is named"
    assert caught.value.remedy
    return caught.value


def test_jobs_come_by_submission_and_then_as_in_the_file(write):
    path = write(HEADER, "late,t,9,1,1", "b,t,3,1,1", "a,t,3,1,1", "first,t,0,1,1")
    assert [job.job_id for job in read_default(path)] == ["first", "b", "a", "late"]


def test_order_of_columns_blanks_and_further_columns_do_not_matter(write):
    path = write("num_gpus, tenant,note,job_id,duration,submit_time", "4,  t ,hello, a,7.5,1e3")
    assert read_default(path) == [TraceJob("a", "t", 1000.0, 4, 7.5)]


def test_quotes_and_a_byte_order_mark(write):
    path = write("\ufeff" + HEADER, '"a,1","t ""x""",0,1,1')
    assert read_default(path) == [TraceJob("a,1", 't "x"', 0.0, 1, 1.0)]


def test_blank_lines_are_skipped_but_counted(write):
    path = write("", HEADER, "", "a,t,0,1,1", "  ", "b,t,0,zero,1", "")
    assert refused(path).line == 6


def test_a_whole_number_may_be_written_with_a_point(write):
    assert read_default(write(HEADER, "a,t,0,2.0,1"))[0].gpus == 2


def test_an_unknown_tenant_is_the_default_one(write):
    assert (
        read_pollux(write("name,time,application,num_replicas,batch_size", "a,0,bert,1,8"))[0].tenant == DEFAULT_TENANT
    )


@pytest.mark.parametrize(
    ("row", "column", "problem"),
    [
        ("b,t,soon,1,5", "submit_time", "'soon' is not a number"),
        ("b,t,,1,5", "submit_time", "'' is not a number"),
        ("b,t,-1,1,5", "submit_time", "-1.0 is negative"),
        ("b,t,nan,1,5", "submit_time", "nan is not finite"),
        ("b,t,inf,1,5", "submit_time", "inf is not finite"),
        ("b,t,0,one,5", "num_gpus", "'one' is not a whole number"),
        ("b,t,0,1.5,5", "num_gpus", "'1.5' is not a whole number"),
        ("b,t,0,nan,5", "num_gpus", "'nan' is not a whole number"),
        ("b,t,0,0,5", "num_gpus", "0 is not a whole number from 1 up"),
        ("b,t,0,-2,5", "num_gpus", "-2 is not a whole number from 1 up"),
        ("b,t,0,1,long", "duration", "'long' is not a number, or empty"),
        ("b,t,0,1,-5", "duration", "-5.0 is not above 0"),
        ("b,t,0,1,0", "duration", "0.0 is not above 0"),
        ("b,t,0,1,NaN", "duration", "nan is not finite"),
        ("b,t,0,1,Infinity", "duration", "inf is not finite"),
        (",t,0,1,5", "job_id", "'' is empty"),
        ("b,,0,1,5", "tenant", "'' is empty"),
        ("a,t,0,1,5", "job_id", "'a' is the job of line 2 already"),
        ("b,t,0,1", "duration", "4 cells under 5 columns"),
        ("b,t,0,1,5,6", None, "6 cells under 5 columns"),
    ],
)
def test_a_malformed_row_is_named_by_line_and_column(write, row: str, column: str | None, problem: str):
    error = refused(write(HEADER, "a,t,0,1,1", row, "c,t,0,1,1"))
    assert (error.line, error.column) == (3, column)
    assert problem in error.problem
    assert "line 3" in str(error)


def test_a_missing_column_is_named(write):
    error = refused(write("job_id,tenant,submit_time,duration", "a,t,0,1"))
    assert (error.line, error.column, error.problem) == (1, "num_gpus", "the column is missing")
    assert HEADER.replace(",", ", ") in error.remedy


@pytest.mark.parametrize("rows", [(), ("",), ("", "  ")])
def test_an_empty_file(write, rows):
    assert refused(write(*rows)).problem == "it is empty"


def test_a_header_alone(write):
    assert refused(write(HEADER)).problem == "it has no jobs"


def test_what_is_no_text(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_bytes(HEADER.encode() + b"\na,t,0,1,1\n\xff\xfe,t,0,1,1\n")
    assert "no text" in refused(path).problem


def test_an_absent_file_is_pythons_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_default(tmp_path / "absent.csv")


def test_errors_travel_between_processes():
    error = TraceError("f.csv", 3, "num_gpus", "0 GPUs", "Give 1")
    assert isinstance(error, RaytideError)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "f.csv, line 3, column 'num_gpus': 0 GPUs. Give 1"
    assert (again.file, again.line, again.column) == ("f.csv", 3, "num_gpus")
