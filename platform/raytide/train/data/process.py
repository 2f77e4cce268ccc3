"""One data worker as the training process sees it: starting it, talking to it, explaining its end."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from raytide.train.data import wire
from raytide.train.data.errors import WorkerDiedError
from raytide.train.data.worker import Answer, Task

_T = TypeVar("_T")

# Not multiprocessing: its spawn runs the user's __main__ again, which a Ray worker does not have.
_BOOT = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from raytide.train.data.worker import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
_EXIT_CODE_S = 1.0
_GONE_S = 5.0


class Starter:
    """A thread that starts all workers and lives as long as they may.

    The kernel sends a worker its death signal when the *thread* that started it ends, and the thread of
    a loop or of a preparation may end long before the process does.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="raytide-data-starter", daemon=True).start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def call(self, function: Callable[[], _T]) -> _T:
        """Run ``function`` in the thread and return its result."""
        future: Future[_T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised again by the caller
                future.set_exception(error)

        self._calls.put(run)
        return future.result()

    def close(self) -> None:
        """End the thread, and with it any worker still alive."""
        self._calls.put(None)


class WorkerProcess:
    """One process and the tasks it has not answered yet, oldest first."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tasks: list[Task] = []
        self.sock, theirs = socket.socketpair()
        path = json.dumps([str(Path(entry).absolute()) for entry in sys.path])
        arguments = [str(theirs.fileno()), str(os.getpid()), path]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-c", _BOOT, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        except BaseException:
            self.sock.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def where(self) -> str:
        """Name for messages."""
        return f"data worker {self.number} (pid {self.pid})"

    @property
    def indices(self) -> tuple[int, ...]:
        """What it is loading now, as far as known here."""
        return self.tasks[0].indices if self.tasks else ()

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            WorkerDiedError: It is gone.
        """
        packed = wire.pack(message)
        try:
            self.send_packed(packed)
        finally:
            packed.close()

    def send_packed(self, packed: wire.Packed) -> None:
        """Send a packed message, which stays the caller's to close."""
        try:
            wire.send(self.sock, packed)
        except OSError:
            raise self.died() from None

    def receive(self) -> Answer:
        """Read one answer.

        Raises:
            WorkerDiedError: It is gone.
        """
        received = wire.receive(self.sock)
        if received is None:
            raise self.died()
        answer = received.unpack()
        assert isinstance(answer, Answer)
        return answer

    def died(self) -> WorkerDiedError:
        """Return the error that tells how it ended."""
        try:
            code: int | None = self._process.wait(_EXIT_CODE_S)
        except subprocess.TimeoutExpired:
            code = None
        return WorkerDiedError(self.where, self.indices, f"the process ended unexpectedly ({_ending(code)})")

    def kill(self) -> None:
        """Kill the process; it holds nothing worth saving."""
        self._process.kill()

    def wait(self) -> None:
        """Wait for its end, but not for one that the kernel cannot end (a hung network disk)."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE_S)


def _ending(code: int | None) -> str:
    if code is None:
        return "it closed its connection"
    if code >= 0:
        return f"exit code {code}; its own output says why"
    name = signal.Signals(-code).name
    return f"killed by {name}" + ("; was memory short?" if name == "SIGKILL" else "")
