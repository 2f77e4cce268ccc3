"""A Ray head that ``raytide up`` starts on this machine and ``raytide down`` ends: that one, and no other."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from raytide.errors import RequestRefused

START_S, STOP_S, POLL_S = 90.0, 30.0, 0.1
_RAY = "ray.scripts.scripts"


@dataclass(frozen=True)
class Head:
    """A head.

    Attributes:
        pid: Of the process whose end is the cluster's.
        address: Of the cluster.
        log: What it said when it started.
    """

    pid: int
    address: str
    log: str

    @property
    def is_alive(self) -> bool:
        """Whether it runs: the process of this id may be another one by now."""
        command = ["ps", "-p", str(self.pid), "-o", "command="]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        return _RAY in done.stdout and "<defunct>" not in done.stdout


def start_head(home: Path, *, port: int, dashboard: bool) -> Head:
    """Start a cluster of this machine, which outlives this process; returns when it answers.

    Raises:
        RequestRefused: It does not come up.
    """
    folder = home / ".raytide"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder / "ray.log"
    options = [f"--port={port}", f"--include-dashboard={dashboard}", "--disable-usage-stats"]
    command = [sys.executable, "-m", _RAY, "start", "--head", "--block", *options, *_label()]
    with log.open("w") as written:
        process = subprocess.Popen(  # noqa: S603 - Ray's own
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True
        )
    head = Head(process.pid, _address(process, log), str(log))
    _record(home).write_text(json.dumps(asdict(head)))
    return head


def known_head(home: Path) -> Head | None:
    """The head that was started here and still runs."""
    try:
        head = Head(**json.loads(_record(home).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return head if head.is_alive else None


def stop_head(head: Head, home: Path) -> None:
    """End it and everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(head.pid, signal.SIGTERM)
        for _ in _while(STOP_S):
            if not head.is_alive:
                break
        else:
            os.killpg(head.pid, signal.SIGKILL)
    _record(home).unlink(missing_ok=True)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in _while(START_S):
        text = log.read_text(errors="replace")
        found = re.search(r"--address='([^']+)'", text)
        if found:
            return found[1]
        if process.poll() is not None:
            last = (text.strip().splitlines() or ["it said nothing"])[-1]
            raise RequestRefused(f"`ray start --head` ended with {process.returncode}: {last} (see {log})")
    process.terminate()
    raise RequestRefused(f"`ray start --head` does not come up within {START_S:.0f} s: see {log}")


def _while(seconds: float) -> Iterator[None]:
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s:
        yield
        time.sleep(POLL_S)


def _label() -> list[str]:
    """The name of this machine's node, if it is one that Ray takes."""
    name = socket.gethostname().partition(".")[0]
    return [f"--labels=raytide.node={name}"] if re.fullmatch(r"[A-Za-z0-9]([\w-]{0,61}[A-Za-z0-9])?", name) else []


def _record(home: Path) -> Path:
    return home / ".raytide" / "head.json"
