"""One job, run by ``raytide run`` in a shell of its own and changed from another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import document, invoke
from support.cluster import TestCluster

START_LIMIT_S = 120.0
RAYTIDE = [sys.executable, "-c", "from raytide.cli.main import app; app()"]


@pytest.fixture(scope="module")
def address(cluster: TestCluster) -> str:
    """Address of the shared cluster, for shells of their own."""
    return str(cluster.cluster.address)


@pytest.fixture(scope="module")
def shell(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """``raytide run`` of a job that is long enough for everything below."""
    folder = tmp_path_factory.mktemp("run")
    options = [
        "--workers",
        "1:3",
        "--epochs",
        "5000",
        "--set",
        "checkpoint_every_epochs=5000",
        "--name",
        "cli",
    ]
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [*RAYTIDE, "run", "raytide.jobs.digits", *options, "--storage", str(folder), "--json"],
            env={**os.environ, "RAY_ADDRESS": address},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        _wait_for_step(process, 20, folder / "stderr")
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for_step(process: subprocess.Popen[str], step: int, errors: Path) -> None:
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        jobs = document("status")["jobs"]
        if jobs and jobs[0]["step"] >= step:
            return
        time.sleep(0.5)
    pytest.fail(f"no step {step} in time: {errors.read_text()[-2000:]}")


@pytest.mark.timeout(600)
def test_a_job_is_changed_while_it_runs(shell: subprocess.Popen[str], address: str):
    status = document("status", "cli")
    assert (status["phase"], status["world_size"], status["least"], status["most"]) == ("running", 1, 1, 3)
    assert [(m["rank"], m["node"]) for m in status["members"]] == [(0, "node-a")]
    os.kill(status["members"][0]["pid"], 0)  # it is a real process

    grown = document("scale", "+1", "--slots", "node-b")
    assert (grown["job"], grown["before"], grown["world_size"]) == ("cli", 1, 2)
    assert grown["bytes_moved"] > 100_000

    moved = document("migrate", "cli", "0", "--to", "node-b")
    assert moved["world_size"] == 2
    assert {m["node"] for m in document("status", "cli")["members"] if m["rank"] >= 0} == {"node-b"}

    refused = invoke("migrate", "cli", "7")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: there is no rank 7")
    assert "Traceback" not in refused.output

    assert Path(document("checkpoint")["path"]).is_dir()
    shrunk = document("scale", "cli", "1")
    assert (shrunk["before"], shrunk["world_size"], shrunk["bytes_moved"]) == (2, 1, 0)

    seen = subprocess.run(
        [*RAYTIDE, "events", "cli", "--json"],
        env={**os.environ, "RAY_ADDRESS": address},
        capture_output=True,
        text=True,
        check=True,
    )
    events = [json.loads(line) for line in seen.stdout.splitlines()]
    assert [e["data"]["world_size"] for e in events if e["kind"] == "generation"] == [1, 2, 2, 1]
    assert [e["number"] for e in events] == list(range(len(events)))
    assert "generation 4: 1 replicas" in invoke("events", "cli").stdout
    assert "node-b" in invoke("status", "cli").stdout

    stopped = document("stop", "cli")
    assert Path(stopped["path"]).is_dir()
    result = json.loads(shell.communicate(timeout=60)[0])
    assert shell.returncode == 0
    assert (result["status"], result["resizes"], result["checkpoint"]) == ("stopped", 3, stopped["path"])
    assert result["metrics"]["accuracy"] > 0.5


@pytest.mark.slow
def test_a_profile_measures_every_size_and_a_suspended_job_goes_on(address: str, tmp_path: Path):
    from raytide.cli.running import load
    from raytide.train import RunConfig, ScalingConfig

    job = load("raytide.jobs.digits", ["checkpoint_every_epochs=5000"], 5000)
    run = RunConfig(name="profiled", storage_path=str(tmp_path))
    handle = job.trainer(ScalingConfig(num_workers=(1, 2)), run).start()
    try:
        sizes = document("profile", "profiled", "1:2", "--window", "1")["sizes"]
        assert [row["world_size"] for row in sizes] == [2, 1]
        assert all(row["samples_per_s"] > 0 for row in sizes)
        assert Path(document("suspend", "profiled")["path"]).is_dir()
        assert document("status", "profiled")["phase"] == "suspended"
        assert document("resume", "profiled", "--workers", "1")["world_size"] == 1
        document("stop", "profiled")
        assert handle.result(timeout_s=30).status == "stopped"
    finally:
        handle.close()


def test_a_job_that_does_not_run_is_refused(address: str):
    done = invoke("stop", "absent", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["kind"] == "RequestRefused"


def test_a_failing_loop_ends_the_command_with_its_traceback(address: str, tmp_path: Path, monkeypatch):
    (tmp_path / "broken_job.py").write_text("def loop(config):\n    raise ValueError('no [data] here')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", address)
    command = [*RAYTIDE, "run", "broken_job", "--workers", "1", "--storage", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: job broken_job-")
    assert last.endswith("the training loop raised on rank 0: ValueError: no [data] here")
    assert 'broken_job.py", line 2, in loop' in done.stderr
    assert "raytide/cli" not in done.stderr, "the traceback is the user's"
