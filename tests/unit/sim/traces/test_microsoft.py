from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from raytide.sim.traces import TraceError, TraceJob, members, read_microsoft, read_trace

RAW = "job_id,submission_time,duration,num_gpu\n"
JOB = TraceJob("x", "default", 2266647.0, 16, 604.0)


@pytest.fixture
def archive(tmp_path):
    def write(name: str = "raw.tar.gz", **texts: str) -> Path:
        path = tmp_path / name
        with tarfile.open(path, "w:gz") as out:
            for member, text in {"LICENSE": "MIT", **{f"{k}.csv": v for k, v in texts.items()}}.items():
                info = tarfile.TarInfo(member)
                info.size = len(text)
                out.addfile(info, io.BytesIO(text.encode()))
        return path

    return write


@pytest.mark.parametrize("member", ["cluster10", "cluster10.csv"])
def test_a_member_is_read_without_unpacking(archive, tmp_path, member):
    path = archive(cluster10=RAW + "x,2266647,604,16\n", cluster09=RAW + "y,0,1,1\n")
    assert read_microsoft(path, member) == read_trace(path, member) == [JOB]
    assert [file.name for file in tmp_path.iterdir()] == ["raw.tar.gz"]
    assert members(path) == ("cluster09.csv", "cluster10.csv")


def test_a_single_member_needs_no_name(archive):
    assert read_microsoft(archive(only=RAW + "x,2266647,604,16\n")) == [JOB]


def test_an_unpacked_cluster(write):
    assert read_microsoft(write(RAW + "x,2266647,604,16")) == [JOB]


def test_the_archive_with_deadlines(archive):
    header = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
    job = TraceJob("x", "default", 5.0, 2, 600.0, "bert", 64, 900.0, 700.0)
    assert read_microsoft(archive(one=header + "x,5,900,bert,700,64,2,600\n")) == [job]


@pytest.mark.parametrize(("member", "problem"), [(None, "it holds 2 tables"), ("c", "it holds no 'c'")])
def test_a_member_must_be_chosen(archive, member, problem):
    with pytest.raises(TraceError, match=problem) as caught:
        read_microsoft(archive(a=RAW, b=RAW), member)
    assert "a.csv, b.csv" in caught.value.remedy


def test_errors_name_the_member(archive):
    path = archive(a=RAW + "x,0,600,0\n")
    with pytest.raises(TraceError, match=r"raw.tar.gz:a.csv, line 2, column 'num_gpu'"):
        read_microsoft(path)


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_damaged_archive(archive, content):
    path = archive(a=RAW + "x,0,600,1\n" * 10_000)
    path.write_bytes(path.read_bytes()[:-40] if content is None else content)
    with pytest.raises(TraceError, match="the archive is damaged"):
        read_microsoft(path)


def test_a_table_has_no_members(write):
    with pytest.raises(TraceError, match="it is no archive that could hold 'a'"):
        read_microsoft(write(RAW + "x,2266647,604,16"), "a")


@pytest.mark.parametrize("name", ["raw", "elasticflow"])
def test_public_clusters(public, name):
    path = public(f"elasticflow-microsoft/{name}-traces.tar.gz")
    clusters = [member for member in members(path) if member.startswith("cluster")]
    assert len(clusters) == 10
    traces = [read_microsoft(path, cluster) for cluster in clusters]
    assert sum(len(trace) for trace in traces) == 69_351
    for trace in traces:
        assert trace == sorted(trace, key=lambda job: job.submit_s)
        assert min(job.duration_s for job in trace) >= 600
