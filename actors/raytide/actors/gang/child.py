"""A command of a rigid job, run under a guard: started, told to end, waited for. No Ray."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from raytide.actors.gang import guard
from raytide.errors import RaytideError

logger = logging.getLogger(__name__)

BEGIN_S = 60.0
"""A command is begun in milliseconds; a machine that swaps takes longer."""

TAIL_LINES, TAIL_CHARS = 12, 4000
_READ_BYTES = 1 << 16


class NotStarted(RaytideError):
    """A command could not be begun; the message says why."""


@dataclass(frozen=True)
class Order:
    """What to run.

    Attributes:
        command: For the shell.
        variables: Added to the environment.
        root: Folder of the job, a path or any fsspec URL; its output goes to ``logs/{log}`` in it.
        log: Name of the file.
        grace_s: What outlives the command has so long to leave.
    """

    command: str
    variables: Mapping[str, str]
    root: str
    log: str
    grace_s: float


@dataclass(frozen=True)
class Exit:
    """How a command ended.

    Attributes:
        code: Negative for a signal.
        told: It was told to end before it did.
        tail: The last lines of its output.
    """

    code: int
    told: bool
    tail: str


class LogFile:
    """Output of one process, appended to; one that belongs on a remote store is put there when the process is over.

    Args:
        root: Folder of the job.
        name: Of the file.
    """

    def __init__(self, root: str, name: str) -> None:
        self._files, folder = fsspec.core.url_to_fs(f"{root.rstrip('/')}/logs")
        self._files.makedirs(folder, exist_ok=True)
        self._remote = f"{folder}/{name}"
        self._is_local = isinstance(self._files, LocalFileSystem)
        self.path = Path(folder if self._is_local else tempfile.mkdtemp(prefix="raytide-")) / name
        if not self._is_local and self._files.exists(self._remote):
            self._files.get(self._remote, str(self.path))
        self._start = self.path.stat().st_size if self.path.exists() else 0

    def publish(self) -> None:
        """It is complete, for now."""
        if not self._is_local and self.path.exists():
            self._files.put(str(self.path), self._remote)

    def tail(self, lines: int) -> str:
        """The last lines that were written since it was opened."""
        if not self.path.is_file():
            return ""
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._start, size - _READ_BYTES))
            text = file.read().decode(errors="replace")
        return "\n".join(text.rstrip().splitlines()[-lines:])


class Child:
    """One command, with all that it starts.

    Args:
        order: What to run.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self.log = LogFile(order.root, order.log)
        self._files, self._state = fsspec.core.url_to_fs(f"{order.root.rstrip('/')}/state")
        self.pid = 0
        self._exit: Exit | None = None
        self._over = threading.Event()
        self._begun = threading.Event()
        self._problem = ""
        self._lock = threading.Lock()
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """Begin; returns the process id of the command, which leads its process group.

        Raises:
            NotStarted: It could not be begun.
        """
        self._files.makedirs(self._state, exist_ok=True)
        self._guard = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", guard.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        order = {
            "command": self._order.command,
            "env": {**os.environ, **self._order.variables},
            "cwd": str(Path.cwd()),
            "log": str(self.log.path),
            "grace_s": self._order.grace_s,
        }
        self._write(json.dumps(order))
        threading.Thread(target=self._listen, args=(self._guard,), name="raytide-child", daemon=True).start()
        if not self._begun.wait(BEGIN_S) or not self.pid:
            raise NotStarted(f"the command could not be begun: {self._problem or 'no answer'}")
        return self.pid

    def end(self, grace_s: float) -> None:
        """Let it leave within ``grace_s``, or kill it; returns at once. Said again, it changes nothing."""
        self._write(f"end {grace_s}")

    def wait(self, timeout_s: float | None = None) -> Exit | None:
        """How it ended, with all that it has started; None if it did not within ``timeout_s``."""
        self._over.wait(timeout_s)
        return self._exit

    def _write(self, line: str) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        with self._lock, contextlib.suppress(BrokenPipeError):  # it is over already
            if not self._guard.stdin.closed:
                self._guard.stdin.write(f"{line}\n".encode())
                self._guard.stdin.flush()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        code, told = -signal.SIGKILL, False  # of a guard that was killed itself
        for line in process.stdout:
            word, _, rest = line.decode().rstrip("\n").partition(" ")
            if word == "exit":
                code, told = int(rest.split()[0]), rest.split()[1] == "1"
            elif word == "pid":
                self.pid = int(rest)
            else:
                self._problem = rest
            self._begun.set()
        process.wait()
        process.stdout.close()
        assert process.stdin is not None
        with self._lock, contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        self._conclude(code, told=told)

    def _conclude(self, code: int, *, told: bool) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._exit = Exit(code, told, "")
        try:
            self._exit = Exit(code, told, self.log.tail(TAIL_LINES)[-TAIL_CHARS:])
            self.log.publish()
        except Exception:  # an edge: whatever a remote store raises, the end must be told
            logger.exception("output of process %d", self.pid)
        finally:
            self._begun.set()
            self._over.set()
