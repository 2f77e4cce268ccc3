"""Tenants, faults and seeds of ``raytide simulate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from raytide.cli import simulated
from raytide.cli.main import app
from raytide.sim.traces import SyntheticTrace, generate, write_trace

DRAWN = "generate:jobs=40,span=2h,tenants=3"
FAULTS = ("--faults", "mtbf=4h,repair=30m")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(simulated, "write_charts", lambda runs, where: (where / "jct.png").touch())  # they take time
    write_trace(generate(SyntheticTrace(jobs=40, span_s=7200.0, tenants=3)), "trace.csv")
    return tmp_path


def run(*words: str):
    policy = () if "--policy" in words else ("--policy", "fifo")
    return CliRunner().invoke(
        app, ["simulate", *words, *policy, "--nodes", "2x8"], env={"COLUMNS": "120", "TERM": "dumb"}
    )


def figures(*words: str):
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_tenants_have_limits(folder):
    Path("tenants.yaml").write_text("tenants:\n  - {tenant: tenant-1, limit_gpus: 1}\n")
    free, limited = (figures("trace.csv", *words)["policies"]["fifo"] for words in ((), ("--tenants", "tenants.yaml")))
    waits = [found["tenants"]["tenant-1"]["mean_queueing_s"] for found in (free, limited)]
    assert waits[0] < waits[1]


def test_faults_make_jobs_wait_and_cost_restarts():
    calm, rough = (figures("trace.csv", "--restart-cost", "30", *words)["policies"]["fifo"] for words in ((), FAULTS))
    assert rough["resize_seconds"] > calm["resize_seconds"]
    assert rough["succeeded"] == calm["succeeded"] == 40


def test_several_seeds_are_means_with_their_spread(folder):
    found = figures(DRAWN, "--policy", "fifo,las2d", "--seeds", "3", "--out", "out")
    assert found["seeds"] == [0, 1, 2]
    each = [json.loads(Path(f"out/seed-{seed}/summary.json").read_text())["policies"] for seed in range(3)]
    means = [one["las2d"]["mean_jct_s"] for one in each]
    assert found["policies"]["las2d"]["mean_jct_s"] == pytest.approx(sum(means) / 3)
    assert found["spread"]["las2d"]["mean_jct_s"] > 0
    assert json.loads(Path("out/summary.json").read_text()) == found
    assert {path.name for path in Path("out/seed-1").iterdir()} >= {"jct.png", "jobs-fifo.csv", "jobs-las2d.csv"}


def test_people_see_the_spread():
    shown = run(DRAWN, "--seeds", "2")
    assert "means of 2 seeds ± their standard deviation" in shown.stdout
    (line,) = (line for line in shown.stdout.splitlines() if line.strip().startswith("mean JCT (s)"))
    assert "±" in line


def test_a_seed_alone_is_one_of_several():
    together = figures("trace.csv", *FAULTS, "--seeds", "2", "--seed", "4", "--out", "both")
    alone = figures("trace.csv", *FAULTS, "--seed", "5", "--out", "one")
    assert together["seeds"] == [4, 5]
    assert json.loads(Path("both/seed-5/summary.json").read_text()) == alone


def test_equal_to_the_byte():
    words = (DRAWN, "--policy", "srtf,optimus", *FAULTS, "--seeds", "2", "--json")
    first, second = (run(*words, "--out", name) for name in ("one", "two"))
    assert first.stdout == second.stdout
    paths = sorted(path.relative_to("one") for path in Path("one").rglob("*") if path.suffix in (".csv", ".json"))
    assert len(paths) == 11
    assert [path for path in paths if (Path("one") / path).read_bytes() != (Path("two") / path).read_bytes()] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trace.csv", "--tenants", "nix.yaml"), "tenants: nix.yaml: No such file"),
        (("trace.csv", "--tenants", "bad.yaml"), "bad.yaml, line 2, field 'limit': there is no such field"),
        (("trace.csv", "--tenants", "binary.yaml"), "tenants: binary.yaml: it is no text"),
        (("trace.csv", "--faults", "mtbf=x"), "faults: mtbf: 'x' is no length of time"),
        (("trace.csv", "--seeds", "2"), "seeds: nothing here is random"),
        (("trace.csv", "--seeds", "0"), "seeds: there is none"),
        (("trace.csv", "--seed", "-1"), "seeds: there is none, or one is negative"),
        (("generate:job=3",), "trace: 'job' is no setting. Did you mean jobs?"),
        (("generate:jobs=many",), "trace: jobs: 'many' is no count"),
        (("generate:span=long",), "trace: span: 'long' is no length of time"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(words, said):
    Path("bad.yaml").write_text("tenants:\n  - {tenant: a, limit: 3}\n")
    Path("binary.yaml").write_bytes(b"\xff\xfe\x00")
    done = run(*words, "--out", "out")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    assert not Path("out").exists()
