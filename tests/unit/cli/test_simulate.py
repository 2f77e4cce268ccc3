from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from raytide.cli import simulated
from raytide.cli.main import app
from raytide.cli.simulated import comparison, tenants_compared
from raytide.sim import simulate
from raytide.sim.report import Run, summary
from raytide.sim.traces import SyntheticTrace, TraceJob, generate, write_trace

TRACE = """job_id,tenant,submit_time,num_gpus,duration
a,x,0,8,10
b,y,3,4,5
c,z,0,9,1
"""
FILES = {
    *("cluster.png", "jct.png", "tenants.png", "summary.json"),
    *(f"{what}-{name}.csv" for what in ("jobs", "tenants") for name in ("fifo", "las2d")),
    *(f"jobs-{name}.parquet" for name in ("fifo", "las2d")),
}


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def run(*words: str):
    return CliRunner().invoke(app, ["simulate", *words], env={"COLUMNS": "120", "TERM": "dumb"})


def test_json_is_one_line_and_files_are_written(trace, tmp_path):
    done = run("trace.csv", "--nodes", "1x8", "--policy", "fifo,las2d", "--out", "out", "--json")
    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()
    policies = json.loads(line)["policies"]
    assert list(policies) == ["fifo", "las2d"]
    assert (policies["fifo"]["mean_jct_s"], policies["fifo"]["refused"]) == (11.0, 1)
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert json.loads((tmp_path / "out/summary.json").read_text()) == json.loads(line)
    assert "3/3 jobs done" in done.stderr


def test_jobs_are_the_same_in_csv_and_parquet(trace, tmp_path):
    run("trace.csv", "--nodes", "1x8", "--policy", "fifo,las2d", "--out", "out")
    table = pd.read_csv(tmp_path / "out/jobs-fifo.csv")
    assert table["job"].tolist() == ["a", "c", "b"]
    parquet = pd.read_parquet(tmp_path / "out/jobs-fifo.parquet")
    numbers = table.select_dtypes("number").columns.drop(["met", "deadline_s"])  # empty ones
    pd.testing.assert_frame_equal(table[numbers], parquet[numbers], check_dtype=False)


def test_people_see_a_table(trace):
    done = run("trace.csv", "--nodes", "1x8", "--policy", "fifo,srtf", "--out", "out")
    lines = {line[:30].strip(): line.split() for line in done.stdout.splitlines() if line.strip()}
    assert lines["mean JCT (s)"][-2:] == ["11.0", "10.0"]
    assert lines["deadlines met"][-2:] == ["-", "-"]
    assert "out" in done.stdout.splitlines()[-1]


def test_costs_are_charged(trace):
    words = ("trace.csv", "--policy", "fifo", "--nodes", "1x8", "--out", "out", "--json", "--restart-cost", "30")
    found = json.loads(run(*words, "--resize-cost", "5").stdout)["policies"]["fifo"]
    assert (found["resize_seconds"], found["makespan_s"]) == (60.0, 75.0)


def test_two_runs_are_equal_to_the_byte(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_trace(generate(SyntheticTrace(jobs=150, span_s=20_000.0)), "trace.csv")
    words = ("trace.csv", "--nodes", "3x8", "--policy", "las2d,srtf", "--restart-cost", "30", "--json")
    first, second = (run(*words, "--out", folder) for folder in ("one", "two"))
    assert first.stdout == second.stdout
    names = sorted(path.name for path in Path("one").iterdir() if path.suffix in (".csv", ".json"))
    assert len(names) == 5
    assert [name for name in names if Path("one", name).read_bytes() != Path("two", name).read_bytes()] == []


def test_a_policy_of_the_folder(trace, tmp_path):
    (tmp_path / "mine_for_a_test.py").write_text("from raytide.policies.fifo import Fifo\nclass Mine(Fifo): pass\n")
    done = run("trace.csv", "--nodes", "1x8", "--policy", "mine_for_a_test:Mine", "--out", "out", "--json")
    assert json.loads(done.stdout)["policies"]["mine_for_a_test:Mine"]["mean_jct_s"] == 11.0
    assert (tmp_path / "out/jobs-mine_for_a_test-Mine.csv").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nix.csv",), "trace: nix.csv: No such file"),
        ((".",), "trace: .: Is a directory"),
        (("bad.csv",), "bad.csv, line 2, column 'num_gpus': 'x' is not a whole number"),
        (("unknown.csv",), "1 of 1 jobs have no duration, first 'a'"),
        (("trace.csv", "--policy", "fiffo"), "there is no policy 'fiffo'. Did you mean fifo?"),
        (("trace.csv", "--policy", ","), "policy: none is named"),
        (("trace.csv", "--policy", "fifo,fifo"), "fifo is named twice"),
        (("trace.csv", "--placer", "pck"), "there is no placer 'pck'. Did you mean pack?"),
        (("trace.csv", "--nodes", "16*8"), "cluster: '16*8'"),
        (("trace.csv", "--restart-cost", "-1"), "restart-cost: -1 is no cost"),
        (("trace.csv", "--resize-cost", "nan"), "resize-cost: nan is no cost"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(trace, tmp_path, words, said):
    (tmp_path / "bad.csv").write_text(TRACE.replace("a,x,0,8", "a,x,0,x"))
    (tmp_path / "unknown.csv").write_text("job_id,tenant,submit_time,num_gpus,duration\na,x,0,1,\n")
    done = run(*words, "--out", "out")
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_found_before_anything_is_simulated(trace):
    done = run("trace.csv", "--out", "trace.csv/out")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "trace.csv/out cannot be written" in line


def test_without_pyarrow_there_is_no_parquet_and_that_is_said(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(simulated, "find_spec", lambda name: None)
    done = run("trace.csv", "--nodes", "1x8", "--out", "out")
    assert done.exit_code == 0
    assert "pyarrow is not installed" in done.stderr
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".csv", ".json", ".png"}


def test_many_tenants_are_cut():
    jobs = [TraceJob(str(i), f"t{i:02}", 0.0, 1 + i % 3, 10.0) for i in range(20)]
    run_ = Run.of(simulate(jobs, "1x8"))
    figures = {"fifo": summary(run_.result, run_.jobs)}
    assert tenants_compared(figures).row_count == 13
    assert comparison(figures).columns[1].header == "fifo"


def test_neither_ray_nor_torch_is_imported(trace):
    code = (
        "import sys\nfrom raytide.cli.main import app\n"
        "try:\n    app(['simulate', 'trace.csv', '--out', 'out', '--json'])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "print('loaded', [name for name in ('ray', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded []"
