"""IndexLoader with real worker processes."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import TensorDataset, get_worker_info

from raytide.train.data import (
    IndexLoader,
    LoaderClosedError,
    LoaderOptions,
    LocalBatch,
    SampleError,
    WorkerDiedError,
    WorkerTimeoutError,
    epoch_order,
    local_batches,
)


class Samples:
    """Sample i is (i, random numbers, pid); some indices misbehave when ``gate`` names a file."""

    def __init__(self, length: int = 1000, gate: Path | None = None) -> None:
        self.length = length
        self.gate = gate

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, int]:
        if index == 666:
            raise KeyError("sample 666 is damaged")
        if index == 777:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.gate is not None:  # blocked until the test removes the file
            while self.gate.exists():
                time.sleep(0.01)
        noise = torch.tensor([torch.rand(1).item(), np.random.rand(), random.random()])  # noqa: NPY002 - users draw from the global one
        return index, noise, os.getpid()


def batch_of(step, indices):
    return LocalBatch(0, step, 0, 1, tuple(indices), 1.0)


def plain(num_steps, size=4, first=0):
    for step in range(num_steps):
        yield batch_of(step, range(first + step * size, first + (step + 1) * size))


def until(condition, limit_s=10.0):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def make():
    loaders = []

    def make(dataset=None, **options):
        loaders.append(IndexLoader(dataset or Samples(), LoaderOptions(**{"num_workers": 1} | options)))
        return loaders[-1]

    yield make
    for loader in loaders:
        pids = loader.worker_pids
        started = time.monotonic()
        loader.close()
        assert time.monotonic() - started < 5.0
        assert all(gone(pid) for pid in pids)


@pytest.fixture(scope="module")
def shared():
    loader = IndexLoader(Samples(), LoaderOptions(num_workers=2, seed=3))
    loader.start()
    yield loader
    loader.close()


def test_order_and_content_are_those_of_the_schedule(shared):
    order = epoch_order(600, seed=1, epoch=0, shuffle=True)
    batches = [batch_of(step, order[step * 7 : step * 7 + 7].tolist()) for step in range(80)]
    loaded = list(shared.load(iter(batches)))
    assert [batch for batch, _ in loaded] == batches
    assert [tuple(content[0].tolist()) for _, content in loaded] == [batch.indices for batch in batches]
    workers = {pid for _, content in loaded for pid in content[2].tolist()}
    assert workers == set(shared.worker_pids)
    assert os.getpid() not in workers


def test_at_most_depth_batches_are_pulled_ahead(shared):
    pulled = []

    def schedule():
        for batch in plain(20):
            pulled.append(batch.step)
            yield batch

    iterator = shared.load(schedule())
    assert pulled == []
    for batch, _ in iterator:
        assert len(pulled) == min(20, batch.step + 1 + shared.depth)


def test_random_numbers_depend_on_neither_workers_nor_split(shared):
    whole = IndexLoader(Samples(), LoaderOptions(seed=3))
    expected = torch.cat([content[1] for _, content in whole.load(plain(2, size=20))])
    for size in (1, 5, 40):
        got = torch.cat([content[1] for _, content in shared.load(plain(40 // size, size=size))])
        assert torch.equal(got, expected)


def test_a_switch_of_the_split_mid_epoch_discards_and_repeats_nothing(make):
    """Two members become three at a step planned one past what either has pulled."""
    order = epoch_order(600, seed=2, epoch=0, shuffle=True)
    members = [make(num_workers=1, prefetch_factor=3) for _ in range(3)]
    switch: list[int] = []
    used: list[int] = []

    def schedule(rank, step, old_world):
        while True:
            world = 3 if switch and step >= switch[0] else old_world
            step_batches = local_batches(
                order,
                epoch=0,
                step=step,
                cursor=step * 12,
                global_batch_size=12,
                rank=rank,
                world_size=world,
                max_local_batch=None,
                drop_last=False,
            )
            if not step_batches:
                return
            yield from step_batches
            step += 1

    old = [members[rank].load(schedule(rank, 0, 2)) for rank in range(2)]
    members[2].start()
    newcomer = None
    for step in range(50):
        if step == 20:
            switch.append(step + members[0].depth + 1)
        if switch and step == switch[0]:
            newcomer = members[2].load(schedule(2, step, 3))
        for iterator in [*old, newcomer] if newcomer else old:
            batch, content = next(iterator)
            assert batch.step == step
            used += content[0].tolist()
    assert newcomer is not None
    assert [next(iterator, None) for iterator in (*old, newcomer)] == [None] * 3
    assert used == order.tolist()


def test_restart_drops_what_is_under_way_at_once_and_keeps_the_workers(make, tmp_path):
    gate = tmp_path / "gate"
    loader = make(Samples(gate=gate))
    loader.start()
    pids = loader.worker_pids
    first = loader.load(plain(50))
    assert next(first)[0].step == 0
    gate.touch()
    threading.Timer(0.3, gate.unlink).start()
    second_started = time.monotonic()
    loader.restart()
    assert time.monotonic() - second_started < 0.1
    loaded = list(loader.load(plain(10, first=100)))
    assert [content[0][0].item() for _, content in loaded] == list(range(100, 140, 4))
    assert [batch.step for batch, _ in loaded] == list(range(10))
    assert loader.worker_pids == pids
    with pytest.raises(AssertionError, match="ended by restart"):
        next(first)


def test_a_dropped_batch_stops_at_its_next_sample(make, tmp_path):
    """A batch of 500 slow samples must not delay the first batch after a restart."""

    class Slow(Samples):
        def __getitem__(self, index: int) -> int:
            time.sleep(0.02)
            return index

    loader = make(Slow(), prefetch_factor=1)
    iterator = loader.load(iter([batch_of(0, [1]), batch_of(1, range(500)), batch_of(2, range(500))]))
    next(iterator)
    iterator.close()
    started = time.monotonic()
    assert [content.tolist() for _, content in loader.load(iter([batch_of(0, [9])]))] == [[9]]
    assert time.monotonic() - started < 2.0


def test_many_restarts_leave_nothing_behind(shared):
    before = psutil.Process().num_fds()
    for trial in range(100):
        iterator = shared.load(plain(30))
        for _ in range(trial % 4):
            next(iterator)
        iterator.close()
    assert [content[0][0].item() for _, content in shared.load(plain(3))] == [0, 4, 8]
    assert psutil.Process().num_fds() <= before + 2


def test_a_damaged_sample_is_reported_in_its_turn_with_the_original_traceback(shared):
    batches = [batch_of(0, [1]), batch_of(1, [2]), batch_of(2, [5, 666])]
    iterator = shared.load(iter(batches))
    assert [next(iterator)[0].step for _ in range(2)] == [0, 1]
    with pytest.raises(SampleError, match=r"data worker \d \(pid \d+\), while loading samples \[5, 666\]") as caught:
        next(iterator)
    assert "sample 666 is damaged" in str(caught.value)
    assert "in __getitem__" in str(caught.value)
    assert caught.value.indices == (5, 666)
    assert len(list(shared.load(plain(5)))) == 5


def test_a_worker_that_dies_in_a_sample_is_reported_with_its_indices(make):
    loader = make()
    with pytest.raises(WorkerDiedError, match=r"data worker \d .*\[776, 777\].*killed by SIGKILL"):
        list(loader.load(plain(3, size=2, first=772)))
    assert loader.worker_pids == ()
    assert len(list(loader.load(plain(3)))) == 3  # with new workers


@pytest.mark.parametrize("number", [0, 1])
def test_a_killed_worker_is_noticed_quickly(make, tmp_path, number):
    gate = tmp_path / "gate"
    loader = make(Samples(gate=gate), num_workers=2)
    loader.start()
    gate.touch()
    victim = loader.worker_pids[number]
    threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
    started = time.monotonic()
    with pytest.raises(WorkerDiedError, match=rf"data worker {number} \(pid {victim}\).*SIGKILL"):
        list(loader.load(plain(10)))
    assert time.monotonic() - started < 2.0


def test_a_worker_killed_between_batches_is_noticed(make):
    loader = make()
    iterator = loader.load(plain(100))
    next(iterator)
    os.kill(loader.worker_pids[0], signal.SIGKILL)
    until(lambda: gone(loader.worker_pids[0]))
    with pytest.raises(WorkerDiedError):
        list(iterator)


def test_a_hung_worker_is_an_error_after_the_timeout(make, tmp_path):
    gate = tmp_path / "gate"
    loader = make(Samples(gate=gate), timeout_s=60.0)
    loader.start()
    gate.touch()
    object.__setattr__(loader.options, "timeout_s", 0.5)  # a limit for starting may not be that short
    with pytest.raises(WorkerTimeoutError, match=r"\[0, 1, 2, 3\]: no answer for 0.5 s"):
        list(loader.load(plain(1)))


def test_closing_from_another_thread_wakes_the_consumer(make, tmp_path):
    gate = tmp_path / "gate"
    loader = make(Samples(gate=gate))
    loader.start()
    gate.touch()
    threading.Timer(0.3, loader.close).start()
    started = time.monotonic()
    with pytest.raises((LoaderClosedError, WorkerDiedError)):
        list(loader.load(plain(10)))
    assert time.monotonic() - started < 3.0


def test_close_is_quick_and_may_be_repeated(make, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()  # workers are busy
    loader = make(Samples(gate=gate))
    loader.start()
    pids = loader.worker_pids
    started = time.monotonic()
    loader.close()
    loader.close()
    assert time.monotonic() - started < 5.0
    assert all(gone(pid) for pid in pids)
    with pytest.raises(AssertionError, match="closed"):
        loader.start()


def test_a_forgotten_loader_takes_its_workers_along():
    loader = IndexLoader(Samples(), LoaderOptions(num_workers=1))
    loader.start()
    (pid,) = loader.worker_pids
    del loader
    until(lambda: gone(pid))


def test_workers_outlive_the_thread_that_started_them(make):
    loader = make()
    thread = threading.Thread(target=loader.start)
    thread.start()
    thread.join()
    time.sleep(0.3)  # the kernel would have killed them by now
    assert len(list(loader.load(plain(10)))) == 10


def test_workers_ignore_interrupts(make):
    loader = make()
    loader.start()
    for pid in loader.worker_pids:
        os.kill(pid, signal.SIGINT)
    assert len(list(loader.load(plain(10)))) == 10


def test_functions_of_this_module_and_closures_work(make):
    offset = 1000

    def init(number):
        torch.my_number = number

    def collate(samples):
        return torch.my_number, [sample[0] + offset for sample in samples]

    loaded = [content for _, content in make(num_workers=2, collate_fn=collate, worker_init_fn=init).load(plain(8))]
    assert {number for number, _ in loaded} == {0, 1}
    assert sorted(value for _, values in loaded for value in values) == list(range(1000, 1032))


def test_a_failing_worker_init_fn_is_reported(make):
    def init(number):
        raise RuntimeError("no disk")

    with pytest.raises(SampleError, match=r"(?s)data worker \d \(pid \d+\): .*no disk"):
        make(worker_init_fn=init).start()


def test_a_batch_that_cannot_be_sent_is_reported(make):
    loader = make(collate_fn=lambda samples: threading.Lock())
    with pytest.raises(SampleError, match=r"(?s)cannot be sent to the training process.*pickle"):
        list(loader.load(plain(1)))


def test_worker_info_is_that_of_torch(make):
    class Info(Samples):
        def __getitem__(self, index: int) -> tuple[int, int, int]:
            info = get_worker_info()
            return info.id, info.num_workers, len(info.dataset)

    loaded = torch.cat([torch.stack(content) for _, content in make(Info(), num_workers=2).load(plain(8))], dim=1)
    assert set(loaded[0].tolist()) == {0, 1}
    assert set(loaded[1].tolist()) == {2}
    assert set(loaded[2].tolist()) == {1000}


def test_large_batches_and_tables_go_through_memory(make):
    table = TensorDataset(torch.arange(2_000_000, dtype=torch.float32).reshape(1000, 2000))
    loader = make(table)
    for batch, content in loader.load(plain(20, size=50)):
        assert torch.equal(content[0], table.tensors[0][list(batch.indices)])
        content[0].add_(1)


def test_pinned_batches_keep_their_order(make, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr("raytide.train.data.loader._pin_memory", lambda batch: ("pinned", batch[0].tolist()))
    loaded = [content for _, content in make(pin_memory=True).load(plain(30))]
    assert loaded == [("pinned", list(batch.indices)) for batch in plain(30)]


def test_time_spent_waiting_is_counted(make, tmp_path):
    gate = tmp_path / "gate"
    loader = make(Samples(gate=gate))
    loader.start()
    gate.touch()
    threading.Timer(0.4, gate.unlink).start()
    assert loader.wait_s == 0.0
    assert len(list(loader.load(plain(3)))) == 3
    assert 0.3 < loader.wait_s < 3.0
