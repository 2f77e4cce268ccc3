from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from raytide.cli.main import app
from raytide.sim import read_trace


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str):
    return CliRunner().invoke(app, ["trace", *words], env={"COLUMNS": "120", "TERM": "dumb"})


def test_generated_traces_are_as_asked_for(folder):
    words = ("generate", "--jobs", "200", "--seed", "3", "--span-days", "2", "--tenants", "4")
    assert run(*words, "one.csv").exit_code == 0
    run(*words, "two.csv")
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes()
    jobs = read_trace("one.csv")
    assert len(jobs) == 200
    assert 86_400 < jobs[-1].submit_s <= 2 * 86_400
    assert len({job.tenant for job in jobs}) <= 4


def test_by_default_a_thousand_jobs_come_a_day():
    document = json.loads(run("generate", "--jobs", "500", "g.csv", "--json").stdout)
    assert (document["path"], document["jobs"]) == ("g.csv", 500)
    assert document["span_s"] <= 43_200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--jobs", "0"), "SyntheticTrace.jobs"),
        (("--span-days", "0"), "SyntheticTrace.span_s"),
        (("--seed", "-1"), "SyntheticTrace.seed"),
        (("--tenants", "0"), "SyntheticTrace.tenants"),
    ],
)
def test_senseless_traces_are_refused(folder, words, said):
    done = run("generate", *words, "g.csv")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    assert not (folder / "g.csv").exists()


def test_a_trace_that_cannot_be_written():
    done = run("generate", "no/such/folder.csv")
    assert done.exit_code == 2
    assert "no/such/folder.csv cannot be written: No such file" in done.stderr


def test_describing(folder):
    (folder / "t.csv").write_text(
        "job_id,tenant,submit_time,num_gpus,duration\na,x,0,8,3600\nb,y,1800,4,1800\nc,x,3600,1,\n"
    )
    done = run("describe", "t.csv", "--gpus", "20")
    assert "3 in 0.04 days" in done.stdout
    assert "10.0 GPU-hours" in done.stdout
    assert "1 (1), 4 (1), 8 (1)" in done.stdout
    assert "x (2), y (1)" in done.stdout
    assert "unknown:    1 durations" in done.stdout
    assert "50.0% of 20 GPUs" in done.stdout
    (line,) = run("describe", "t.csv", "--gpus", "20", "--json").stdout.splitlines()
    assert json.loads(line)["offered_load"] == 0.5


def test_describing_one_job(folder):
    (folder / "t.csv").write_text("job_id,tenant,submit_time,num_gpus,duration\na,x,0,8,3600\n")
    (line,) = run("describe", "t.csv", "--gpus", "8", "--json").stdout.splitlines()
    assert json.loads(line)["offered_load"] is None
    assert run("describe", "t.csv", "--gpus", "8").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"), [(("nix.csv",), "No such file"), (("t.csv", "--gpus", "0"), "offered_load.gpus")]
)
def test_bad_questions(folder, words, said):
    (folder / "t.csv").write_text("job_id,tenant,submit_time,num_gpus,duration\na,x,0,8,10\nb,x,1,8,10\n")
    done = run("describe", *words)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert said in line
