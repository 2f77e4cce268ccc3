"""Loading of batches ahead of their use, in an order that is decided while training runs."""

from __future__ import annotations

import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory as _untyped_pin_memory

from raytide.train.data.checks import check_dataset
from raytide.train.data.errors import SampleError, WorkerDiedError, WorkerTimeoutError
from raytide.train.data.fetch import Fetcher
from raytide.train.data.pool import Loaded, WorkerPool
from raytide.train.data.sample_rng import generators_kept

if TYPE_CHECKING:
    from raytide.train.data.options import LoaderOptions
    from raytide.train.data.split import LocalBatch


_pin_memory: Callable[[Any], Any] = _untyped_pin_memory


class IndexLoader:
    """Loads index lists in the order asked for, ahead of use, over any number of resizes.

    Worker processes are started once and persist. They are raytide's own, not those of
    ``torch.utils.data.DataLoader``, because a resize needs what that one cannot do: a second iteration
    over persistent DataLoader workers first waits for every batch that is still queued (seconds, in the
    middle of a recovery), a new set of workers imports torch again, and its ``spawn`` runs the user's
    ``__main__`` again, which inside a Ray worker is not the user's script. Here dropping what is under
    way is one message per worker, and workers stop at their next sample.

    Workers are fresh processes (never forked: forked ones would keep the replica's sockets open), ignore
    Ctrl-C, and end with their parent, also when it is killed. Dataset and functions are sent by value,
    so they may be defined in a notebook. One thread at a time may use a loader, but any may close it.

    Attributes:
        options: The settings.
        wait_s: Seconds the consumer has waited for data so far, all passes together; with
            ``num_workers=0`` the loading itself.
    """

    def __init__(self, dataset: Any, options: LoaderOptions) -> None:
        check_dataset(dataset)
        self.options = options
        self.wait_s = 0.0
        self._dataset = dataset
        self._fetcher = Fetcher(dataset, options)
        self._pool: WorkerPool | None = None
        self._pass = 0
        self._closed = False
        self._pins = options.pin_memory and torch.accelerator.is_available()
        self._pinner: ThreadPoolExecutor | None = None

    @property
    def depth(self) -> int:
        """How many batches are loaded ahead of the one in use; 0 without workers."""
        return self.options.depth

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the running workers."""
        return self._pool.pids if self._pool else ()

    def start(self) -> None:
        """Start the workers and wait until all have imported and unpacked the dataset. Idempotent.

        Raises:
            SampleError: ``worker_init_fn`` raised, or the dataset cannot be unpickled there.
            WorkerDiedError, WorkerTimeoutError: A worker did not come up.
        """
        if self._closed:
            raise AssertionError("the loader is closed")
        if self.options.num_workers and self._pool is None:
            self._pool = WorkerPool(self._dataset, self.options)
            weakref.finalize(self, self._pool.close)  # for a loader that is dropped without close()

    def load(self, schedule: Iterator[LocalBatch]) -> Iterator[tuple[LocalBatch, Any]]:
        """Yield every batch of ``schedule``, in order, with its loaded content.

        ``schedule`` is asked for an item only when its loading is to begin: while the consumer holds item
        k, exactly the items up to k + ``depth`` have been taken (fewer if it ended). What the schedule
        decides may therefore change from item k + ``depth`` + 1 on without discarding any work.

        Closing the iterator, :meth:`restart` and a new ``load`` all drop what is under way.

        Raises:
            SampleError: Dataset or ``collate_fn`` raised.
            WorkerDiedError: A worker ended; the next ``load`` starts new ones.
            WorkerTimeoutError: A batch took longer than ``timeout_s``.
        """
        self.start()
        self.restart()
        mine = self._pass
        source = self._load_here(schedule) if self._pool is None else self._load_ahead(schedule, self._pool)
        try:
            for batch, content in source:
                yield batch, content
                if self._pass != mine:
                    raise AssertionError("this pass was ended by restart(), close() or another load()")
        finally:
            if self._pass == mine:
                self.restart()

    def restart(self) -> None:
        """Drop everything loaded or under way, without starting workers anew and without waiting."""
        self._pass += 1
        if self._pool is not None:
            with self._pool_dropped_if_broken():
                self._pool.forget()

    def close(self) -> None:
        """End the workers and wait until they are gone. Idempotent."""
        self._closed = True
        self._pass += 1
        self._drop_pool()
        if self._pinner is not None:
            self._pinner.shutdown(wait=False)

    def _load_here(self, schedule: Iterator[LocalBatch]) -> Iterator[tuple[LocalBatch, Any]]:
        for batch in schedule:
            started = time.perf_counter()
            try:
                with generators_kept() if self._fetcher.is_random else nullcontext():
                    content = self._fetcher.fetch(batch.epoch, batch.indices)
            except Exception as error:
                text = "the original error follows\n" + traceback.format_exc()
                raise SampleError("the training process", batch.indices, text) from error
            content = _pin_memory(content) if self._pins else content
            self.wait_s += time.perf_counter() - started
            yield batch, content

    def _load_ahead(self, schedule: Iterator[LocalBatch], pool: WorkerPool) -> Iterator[tuple[LocalBatch, Any]]:
        pending: deque[LocalBatch] = deque()
        arrived: dict[int, Loaded] = {}

        def fill() -> None:
            while len(pending) < self.depth and (batch := next(schedule, None)) is not None:
                pool.submit(given + len(pending), batch.epoch, batch.indices)
                pending.append(batch)

        given = 0
        with self._pool_dropped_if_broken():
            fill()
            while pending:
                content = self._wait_for(given, pool, arrived)
                batch = pending.popleft()
                given += 1
                fill()
                if self._pins:
                    self._keep(pool.receive_arrived(), arrived)
                yield batch, content

    def _wait_for(self, item: int, pool: WorkerPool, arrived: dict[int, Loaded]) -> Any:
        started = time.perf_counter()
        while item not in arrived:
            self._keep([pool.receive()], arrived)
        loaded = arrived.pop(item)
        if loaded.error is not None:
            raise loaded.error
        content = loaded.batch.result() if self._pins else loaded.batch
        self.wait_s += time.perf_counter() - started
        return content

    def _keep(self, outcomes: list[Loaded], arrived: dict[int, Loaded]) -> None:
        for loaded in outcomes:
            arrived[loaded.item] = self._pinning(loaded) if self._pins and not loaded.error else loaded

    def _pinning(self, loaded: Loaded) -> Loaded:
        # In a thread, so that the copy runs beside the step of an earlier batch.
        self._pinner = self._pinner or ThreadPoolExecutor(1, "raytide-pin")
        return replace(loaded, batch=self._pinner.submit(_pin_memory, loaded.batch))

    @contextmanager
    def _pool_dropped_if_broken(self) -> Iterator[None]:
        try:
            yield
        except (WorkerDiedError, WorkerTimeoutError):
            self._drop_pool()
            raise

    def _drop_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
