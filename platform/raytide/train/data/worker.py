"""A data worker process: loads the batches it is told to, in order, until its parent is gone.

Two threads: one reads messages, so that the parent never blocks while sending and the parent's end is
seen even while a sample loads; the main thread loads and answers.
"""

from __future__ import annotations

import ctypes
import os
import queue
import select
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import _utils as _torch_data

from raytide.train.data import wire
from raytide.train.data.fetch import AbandonedError, Fetcher
from raytide.train.data.sample_rng import seed_generators

if TYPE_CHECKING:
    from raytide.train.data.options import LoaderOptions

_PR_SET_PDEATHSIG = 1
_WATCH_S = 1.0
"""How often the parent's id is checked; its closed socket is normally seen at once."""


@dataclass(frozen=True)
class Task:
    """Load one batch. ``round`` rises with every restart, ``item`` counts within a round."""

    round: int
    item: int
    epoch: int
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Forget:
    """Work of rounds before this one is no longer wanted."""

    round: int


@dataclass(frozen=True)
class Answer:
    """A loaded batch, or the traceback of the attempt. The first answer has ``round`` -1: ready."""

    round: int
    item: int
    batch: Any = None
    failure: str | None = None


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends (Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before the request was in force


class _Inbox:
    """Reads messages in a thread of its own; ends the process when the parent is gone."""

    def __init__(self, sock: socket.socket, parent: int) -> None:
        self.tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self.round = 0
        self._sock = sock
        self._parent = parent
        threading.Thread(target=self._read, name="raytide-inbox", daemon=True).start()

    def _wait(self) -> None:
        # A copy of the parent's socket in some forked process would hide its end, hence the id.
        poll = select.poll()  # not select(), whose descriptors end at 1023
        poll.register(self._sock, select.POLLIN)
        while not poll.poll(_WATCH_S * 1000):
            if os.getppid() != self._parent:
                os._exit(1)

    def _read(self) -> None:
        while (received := wire.receive(self._sock, self._wait)) is not None:
            message = received.unpack()
            self.round = message.round
            if isinstance(message, Task):
                self.tasks.put(message)
        os._exit(0)


class _WorkerFetcher(Fetcher):
    def collate(self, samples: list[Any]) -> Any:
        # Inside a worker default_collate would allocate in /dev/shm for torch's own transport.
        info, _torch_data.worker._worker_info = _torch_data.worker._worker_info, None
        try:
            return super().collate(samples)
        finally:
            _torch_data.worker._worker_info = info


def _answer(sock: socket.socket, answer: Answer) -> None:
    try:
        packed = wire.pack(answer)
    except Exception:  # noqa: BLE001 - whatever the user's classes raise
        failure = "the batch cannot be sent to the training process\n" + traceback.format_exc()
        packed = wire.pack(Answer(answer.round, answer.item, failure=failure))
    try:
        wire.send(sock, packed)
    finally:
        packed.close()


def _prepare(dataset: Any, options: LoaderOptions, number: int) -> Fetcher:
    torch.set_num_threads(1)
    seed = options.seed + number
    seed_generators(seed)
    info = _torch_data.worker.WorkerInfo(id=number, num_workers=options.num_workers, seed=seed, dataset=dataset)
    _torch_data.worker._worker_info = info
    if options.worker_init_fn is not None:
        options.worker_init_fn(number)
    return _WorkerFetcher(dataset, options)


def _load(fetcher: Fetcher, inbox: _Inbox, task: Task) -> Answer | None:
    def abandoned() -> bool:
        return inbox.round != task.round

    if abandoned():
        return None
    try:
        return Answer(task.round, task.item, batch=fetcher.fetch(task.epoch, task.indices, abandoned))
    except AbandonedError:
        return None
    except Exception:  # noqa: BLE001 - whatever the user's code raises
        return Answer(task.round, task.item, failure=traceback.format_exc())


def serve(sock: socket.socket, parent: int) -> None:
    """Run a worker on its socket; returns only by ending the process."""
    shared, number = wire.receive(sock), wire.receive(sock)
    if shared is None or number is None:
        os._exit(0)
    try:
        # Private, so that a dataset that changes its own arrays does not change other workers'.
        dataset, options = shared.unpack(private=True)
        fetcher = _prepare(dataset, options, number.unpack())
    except Exception:  # noqa: BLE001 - whatever the user's code raises
        _answer(sock, Answer(-1, -1, failure=traceback.format_exc()))
        os._exit(1)
    inbox = _Inbox(sock, parent)
    _answer(sock, Answer(-1, -1))
    while True:
        answer = _load(fetcher, inbox, inbox.tasks.get())
        if answer is not None:
            _answer(sock, answer)


def main(descriptor: int, parent: int) -> None:
    """Entry point of the process: ``descriptor`` is its end of the socket, ``parent`` the parent's id."""
    die_with_parent(parent)
    try:
        serve(socket.socket(fileno=descriptor), parent)
    except OSError:
        os._exit(0)  # the parent closed its end while an answer was under way
