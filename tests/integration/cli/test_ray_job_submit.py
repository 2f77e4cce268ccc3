"""``ray job submit`` of a checkout that is not installed on the cluster, to a head that ``ray start`` made."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
RAY = str(BIN / "ray")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"} | {
    "RAY_AUTH_MODE": "disabled",
    "PATH": f"{BIN}:{os.environ['PATH']}",  # the entry point's `python` is this one, as in an activated environment
}
START_LIMIT_S = 120.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def dashboard() -> Iterator[str]:
    """Address of the dashboard of a cluster for this test only."""
    folder = Path(tempfile.mkdtemp(prefix="raytide-head-", dir="/tmp"))  # a socket's path must be short
    address = f"http://127.0.0.1:{(port := free_port())}"
    ports = [f"--port={free_port()}", f"--dashboard-port={port}", f"--dashboard-agent-listen-port={free_port()}"]
    with (folder / "head.log").open("w") as log:
        head = subprocess.Popen(
            [RAY, "start", "--head", "--block", "--num-cpus=2", *ports, f"--temp-dir={folder}"],
            env=ENVIRONMENT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(address, head, folder / "head.log")
        yield address
    finally:
        head.send_signal(signal.SIGTERM)
        try:
            head.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(address: str, head: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s and head.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/api/version", timeout=5).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    pytest.fail(f"no dashboard in time: {log.read_text()[-2000:]}")


@pytest.mark.timeout(600)
def test_a_checkout_runs_as_a_ray_job(dashboard: str) -> None:
    """The job's driver, the master and the replicas all import the uploaded copy."""
    entrypoint = ["python", "-m", "raytide.jobs.digits", "--workers", "1:2", "--epochs", "3"]
    upload = ["--working-dir", ".", "--runtime-env", "runtime_env.yaml"]
    command = [RAY, "job", "submit", "--address", dashboard, *upload, "--", *entrypoint]
    said = _submit(command)
    assert "accuracy" in said, said[-3000:]


def _submit(command: list[str]) -> str:
    """Output of a successful submission; a head whose agent is still coming up is asked again."""
    deadline_s = time.monotonic() + START_LIMIT_S
    while True:
        done = subprocess.run(
            command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
        )
        said = done.stderr + done.stdout
        if "No available agent" not in said or time.monotonic() > deadline_s:
            assert done.returncode == 0, said[-3000:]
            return said
        time.sleep(1.0)
