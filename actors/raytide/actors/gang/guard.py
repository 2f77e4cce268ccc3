"""Runs one command and ends it as a whole: a program of its own, with nothing but Python's standard library.

It is the parent of a rigid job's process, and no child of the actor that started it, so that it outlives that
actor for the moment which it takes to end what the actor has left behind.

On its standard input: one line of JSON (``command``, ``env``, ``cwd``, ``log``, ``grace_s``), then ``end SECONDS``
at most once. The end of the input means that the actor is gone: everything is killed at once.
On its standard output: ``pid N`` or ``error TEXT``, then ``exit CODE TOLD`` when all that was started is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOOK_S = 1.0
"""What is no child of the guard yet ends without a signal to it."""
GIVE_UP_S = 5.0
"""A killed process that is still there after this hangs in the kernel."""


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _die_with_guard() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guard:
    """One command and all its descendants, which become the guard's children when their parents end."""

    def __init__(self, order: dict[str, Any]) -> None:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._child = subprocess.Popen(  # noqa: S603 - the tenant's own command
            ["/bin/sh", "-c", order["command"]],
            env=order["env"],
            cwd=order["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_guard,  # noqa: PLW1509 - the guard has one thread
        )
        os.close(log)
        self.pid = self._child.pid  # kept, because a forgotten Popen would reap it and with it the exit code
        self.told = False
        self._code: int | None = None
        self._grace_s = float(order["grace_s"])
        self._deadline_s = float("inf")
        self._killed_s = float("inf")

    @property
    def code(self) -> int:
        """Exit code; negative for a signal."""
        return -signal.SIGKILL if self._code is None else self._code

    @property
    def wait_s(self) -> float:
        """Nothing has to be done for so long, if nothing happens."""
        return max(0.0, min(LOOK_S, self._deadline_s - time.monotonic()))

    def end(self, grace_s: float) -> None:
        """Let it save and leave; said again, it changes nothing."""
        if self._deadline_s < float("inf"):
            return
        if self._code is None:
            self.told = True
        self._signal(signal.SIGTERM)
        self._deadline_s = time.monotonic() + grace_s

    def kill(self) -> None:
        """End everything at once: its group, and those that left the group."""
        self._signal(signal.SIGKILL)
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._killed_s = min(self._killed_s, time.monotonic())

    def is_over(self) -> bool:
        """Reap what has ended; whether nothing is left."""
        self._reap()
        now = time.monotonic()
        if self._code is not None and self._deadline_s == float("inf"):
            self.end(self._grace_s)  # the rest of a command that is over
        if now >= self._deadline_s:
            self.kill()
        gone = self._code is not None and not self._signal(0) and not _children()
        return gone or now - self._killed_s > GIVE_UP_S

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    self._code = os.waitstatus_to_exitcode(status)

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _children() -> list[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{line}\n".encode())


class Lines:
    """Whole lines of standard input."""

    def __init__(self) -> None:
        self._rest = b""
        self.ended = False

    def read(self) -> list[str]:
        """Wait for more; the lines that are whole now."""
        data = os.read(0, 1 << 16)
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode() for line in lines]


def _serve(guard: Guard, lines: Lines, wake: int) -> None:
    while not guard.is_over():
        sources = [wake] if lines.ended else [0, wake]
        ready, _, _ = select.select(sources, [], [], guard.wait_s)
        if wake in ready:
            os.read(wake, 1 << 10)
        if 0 not in ready:
            continue
        for line in lines.read():
            guard.end(float(line.split()[1]))
        if lines.ended:
            guard.kill()


def main() -> None:
    """Serve one command."""
    if os.fork():
        os._exit(0)  # the actor's child ends here: what Ray kills with its workers is not the guard
    os.setsid()
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    lines = Lines()
    found: list[str] = []
    while not found and not lines.ended:
        found = lines.read()
    try:
        guard = Guard(json.loads(found[0]))
    except (OSError, IndexError) as error:
        _say(f"error {error}")
        os._exit(1)
    _say(f"pid {guard.pid}")
    _serve(guard, lines, wake)
    _say(f"exit {guard.code} {int(guard.told)}")
    os._exit(0)


if __name__ == "__main__":
    main()
