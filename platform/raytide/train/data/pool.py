"""The worker processes of one loader."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from raytide.train.data import wire
from raytide.train.data.errors import DataLoadError, LoaderClosedError, SampleError, WorkerTimeoutError
from raytide.train.data.process import Starter, WorkerProcess
from raytide.train.data.worker import Answer, Forget, Task

if TYPE_CHECKING:
    from raytide.train.data.options import LoaderOptions

_POLL_S = 1.0


@dataclass(frozen=True)
class Loaded:
    """The outcome of one task: a batch, or the error to raise when its turn comes."""

    item: int
    batch: Any = None
    error: SampleError | None = None


class WorkerPool:
    """Worker processes that load tasks; every outcome comes back once, in any order.

    Not safe for several threads, except :meth:`close`.
    """

    def __init__(self, dataset: Any, options: LoaderOptions) -> None:
        self._options = options
        self._round = 0
        self._closed = False
        self._receiving = threading.Lock()
        self._starter = Starter()
        self._workers: list[WorkerProcess] = []
        try:
            for number in range(options.num_workers):
                self._workers.append(self._starter.call(partial(WorkerProcess, number)))
            self._set_up(dataset)
        except BaseException:
            self.close()
            raise

    def _set_up(self, dataset: Any) -> None:
        # Packed once: the workers map the same memory, so a dataset of tensors costs one copy in all.
        packed = wire.pack((dataset, self._options))
        try:
            for worker in self._workers:
                worker.send_packed(packed)
                worker.send(worker.number)
        finally:
            packed.close()
        waiting = list(self._workers)
        while waiting:
            worker, answer = self._next(waiting)
            if answer.failure is not None:
                raise SampleError(worker.where, (), _original(answer.failure))
            waiting.remove(worker)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, by worker number."""
        return tuple(worker.pid for worker in self._workers)

    def submit(self, item: int, epoch: int, indices: tuple[int, ...]) -> None:
        """Give a task to the worker with the fewest unanswered ones.

        Raises:
            WorkerDiedError: That worker is gone.
        """
        self._check_open()
        count = len(self._workers)
        worker = min(self._workers, key=lambda w: (len(w.tasks), (w.number - item) % count))
        task = Task(self._round, item, epoch, indices)
        worker.tasks.append(task)
        worker.send(task)

    def forget(self) -> None:
        """Drop everything submitted so far; workers stop at the next sample.

        Raises:
            WorkerDiedError: A worker is gone.
        """
        self._round += 1
        for worker in self._workers:
            worker.tasks.clear()
            worker.send(Forget(self._round))

    def receive(self) -> Loaded:
        """Wait for the next outcome.

        Raises:
            WorkerDiedError: A worker is gone, whichever it is.
            WorkerTimeoutError: No answer for ``timeout_s``.
            LoaderClosedError: Another thread closed the pool.
        """
        while True:
            worker, answer = self._next(self._workers)
            if (loaded := self._settle(worker, answer)) is not None:
                return loaded

    def receive_arrived(self) -> list[Loaded]:
        """Return the outcomes that are there already, without waiting."""
        with self._receiving:
            self._check_open()
            ready = self._poll(self._workers, 0.0)
            outcomes = (self._settle(worker, worker.receive()) for worker in ready)
            return [outcome for outcome in outcomes if outcome is not None]

    def _settle(self, worker: WorkerProcess, answer: Answer) -> Loaded | None:
        if answer.round != self._round:
            return None
        task = worker.tasks.pop(0)
        if answer.failure is None:
            return Loaded(task.item, answer.batch)
        return Loaded(task.item, error=SampleError(worker.where, task.indices, _original(answer.failure)))

    def _next(self, workers: Sequence[WorkerProcess]) -> tuple[WorkerProcess, Answer]:
        deadline = time.monotonic() + self._options.timeout_s
        with self._receiving:
            while (left := deadline - time.monotonic()) > 0:
                self._check_open()
                ready = self._poll(workers, min(_POLL_S, left))
                self._check_open()
                if ready:
                    return ready[0], ready[0].receive()
        raise self._late(workers)

    def _poll(self, workers: Sequence[WorkerProcess], timeout_s: float) -> list[WorkerProcess]:
        poll = select.poll()  # not select(), whose descriptors end at 1023
        by_descriptor = {worker.sock.fileno(): worker for worker in workers}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        return [by_descriptor[descriptor] for descriptor, _ in poll.poll(timeout_s * 1000)]

    def _late(self, workers: Sequence[WorkerProcess]) -> DataLoadError:
        late = next((worker for worker in workers if worker.tasks), workers[0])
        limit = f"{self._options.timeout_s:g} s"
        return WorkerTimeoutError(
            late.where,
            late.indices,
            f"no answer for {limit}; raise LoaderOptions.timeout_s if that is normal",
        )

    def _check_open(self) -> None:
        if self._closed:
            raise LoaderClosedError("the training process", (), "the loader was closed while it was in use")

    def close(self) -> None:
        """Kill the workers and wait for their end. Idempotent, from any thread."""
        self._closed = True
        for worker in self._workers:
            worker.kill()
        # The ends of the sockets wake a receiving thread, which then sees the flag and lets go.
        with self._receiving:
            workers, self._workers = self._workers, []
            for worker in workers:
                worker.wait()
                worker.sock.close()
        self._starter.close()


def _original(traceback_text: str) -> str:
    return "the original error follows\n" + traceback_text
