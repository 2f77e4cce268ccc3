"""A platform on a real cluster, from ``raytide up`` to ``raytide down``; every test leaves it as it found it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raytide.submission.local_token import token_path
from support.cli import document, invoke
from support.cluster import TestCluster

LIMIT_S = 90.0
JOB = """
kind: elastic
loop: raytide.jobs.digits:loop
workers: 1:3
storage: results
config: {epochs: EPOCHS, global_batch_size: 64, lr: 5e-2, warmup_epochs: 1, weight_decay: 5e-4, width: 4,
         checkpoint_every_epochs: 5000, num_workers: 0, max_local_batch: null, seed: 0}
"""


def until(job: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The job, as soon as it is as it should be."""
    deadline_s = time.monotonic() + LIMIT_S
    while not wanted(found := document("show", job)):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.3)
    return found


@pytest.fixture(scope="module")
def home(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a user who has started a platform of one slot per CPU."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("RAYTIDE_TOKEN", raising=False)
        done = invoke("up", "--slot", "CPU=1", "--policy", "fifo")
        assert done.exit_code == 0, done.output
        assert "8 of CPU=1 on 2 nodes" in done.stdout
        try:
            yield home
        finally:
            down = document("down")
            assert down["head"] is None, "a cluster that somebody else started goes on"


@pytest.fixture(scope="module")
def job(home: Path) -> str:
    """A job that runs for as long as the tests do."""
    path = home / "long.yaml"
    path.write_text(JOB.replace("EPOCHS", "5000"))
    info = document("submit", str(path), "--name", "long", "--tenant", "vision", "--priority", "2")
    assert info["priority"] == 2
    until("long", lambda found: found["step"] > 0)
    return "long"


def test_the_first_token_is_kept_for_its_user_and_never_shown(home: Path):
    path = token_path(home)
    token = path.read_text().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    again = invoke("up")
    assert "ran already" in again.stdout
    assert token not in again.output
    assert (home / ".raytide" / "platform.db").exists()


def test_a_job_is_seen_where_it_runs(job: str):
    listed = invoke("ls", "--tenant", "vision").stdout
    assert "1 of 1..3" in listed
    shown = invoke("show", job).stdout
    assert "running" in shown
    assert "priority 2" in shown
    assert "training epoch" in shown or "pid" in shown
    frame = invoke("top", "--once").stdout
    assert "fifo/pack" in frame
    assert any(line.startswith("A long") for line in frame.splitlines())
    assert "generation" in invoke("logs", job).stdout
    assert [known["job"] for known in document("status")["jobs"]] == [job]


def test_a_job_is_scaled_pinned_suspended_and_resumed(job: str):
    assert invoke("scale", job, "2:3").exit_code == 0
    until(job, lambda found: found["state"] == "running" and found["count"] == 2)
    assert document("pin", job)["most"] == 2
    assert document("pin", job, "--off")["most"] == 3
    assert "no range inside 1:3" in invoke("scale", job, "1:9").output
    invoke("suspend", job)
    until(job, lambda found: found["state"] == "suspended")
    invoke("resume", job)
    until(job, lambda found: found["state"] == "running" and found["count"] > 0)
    assert invoke("scale", job, "1:3").exit_code == 0


def test_a_wrong_token_changes_nothing(job: str):
    for token in ("rt_wrong", "not-even-one"):
        refused = invoke("cancel", job, env={"RAYTIDE_TOKEN": token})
        assert refused.exit_code == 2
        assert "token" in refused.output
        assert "Traceback" not in refused.output
    assert document("show", job)["state"] != "cancelled"


def test_tenants_have_quotas_and_tokens(job: str, home: Path):
    invoke("tenant", "set", "research", "--guaranteed", "2", "--limit", "4")
    invoke("tenant", "set", "speech", "--parent", "research", "--limit", "none")
    listed = {tenant["tenant"]: tenant for tenant in document("tenant", "ls")["tenants"]}
    assert listed["research"]["guaranteed_gpus"] == 2
    assert listed["speech"]["parent"] == "research"
    token = document("tenant", "token", "speech")["token"]
    mine = {"RAYTIDE_TOKEN": token}
    assert "tenant vision" in invoke("cancel", job, env=mine).output
    assert "administrators" in invoke("policy", "set", "tide", env=mine).output
    (home / "tenants.yaml").write_text("tenants:\n  - {tenant: admin, admin: true}\n  - {tenant: research}\n")
    assert document("tenant", "apply", str(home / "tenants.yaml"), "--prune")["removed"] == ["speech"]
    assert invoke("cancel", job, env=mine).exit_code == 2, "its token is worth nothing now"


def test_the_policy_is_changed_while_jobs_go_on(job: str):
    assert document("policy", "set", "tide") == {"policy": "tide", "jobs": 1}
    assert document("policy", "show")["policy"] == "tide"
    assert invoke("policy", "set", "none").exit_code == 2


def test_a_node_is_drained(job: str):
    assert invoke("node", "drain", "nowhere").exit_code == 2
    invoke("node", "drain", "node-b")
    listed = {node["name"]: node["open"] for node in document("node", "ls")["nodes"]}
    assert listed == {"node-a": True, "node-b": False}


def test_a_job_is_cancelled(job: str):
    assert document("cancel", job)["job"] == job
    until(job, lambda found: found["state"] == "cancelled")
    assert "has cancelled" in invoke("suspend", job).output


def test_a_job_is_followed_to_its_end(home: Path):
    path = home / "short.yaml"
    path.write_text(JOB.replace("EPOCHS", "2"))
    done = invoke("submit", str(path), "--name", "short", "--workers", "1", "--follow")
    assert done.exit_code == 0, done.output
    assert "succeeded" in done.stdout
    assert "accuracy" in done.stdout
    assert (home / "results" / "short").is_dir()
    assert "short" in invoke("ls", "--ended", "1").stdout
    refused = invoke("submit", str(path), "--name", "short")
    assert refused.exit_code == 2
    assert "choose another name" in refused.output
