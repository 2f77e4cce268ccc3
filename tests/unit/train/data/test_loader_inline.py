"""The loader without workers; with workers see tests/integration/data."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from raytide.train.data import IndexLoader, LoaderOptions, LocalBatch, SampleError


class Squares:
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> tuple[int, float]:
        if index == 13:
            raise KeyError("no sample 13")
        return index * index, random.random() + np.random.rand() + torch.rand(1).item()  # noqa: NPY002 - as users do


def batches(*index_lists):
    return (LocalBatch(0, step, 0, 1, tuple(indices), 1.0) for step, indices in enumerate(index_lists))


def test_batches_come_in_the_order_asked_for():
    loader = IndexLoader(Squares(), LoaderOptions())
    loaded = list(loader.load(batches((3, 1), (7,), (1, 1))))
    assert [content[0].tolist() for _, content in loaded] == [[9, 1], [49], [1, 1]]
    assert [batch.step for batch, _ in loaded] == [0, 1, 2]
    assert (loader.depth, loader.worker_pids) == (0, ())
    assert loader.wait_s > 0
    loader.close()


def test_nothing_is_pulled_ahead_of_use():
    pulled = []

    def schedule():
        for batch in batches((0,), (1,), (2,)):
            pulled.append(batch.step)
            yield batch

    for batch, _ in IndexLoader(Squares(), LoaderOptions()).load(schedule()):
        assert pulled == list(range(batch.step + 1))


def test_the_generators_of_the_process_are_untouched():
    def state():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002 - the same

    before = state()
    loader = IndexLoader(Squares(), LoaderOptions(seed=8))
    first = [content for _, content in loader.load(batches((4, 5), (6,)))]
    assert state() == before
    again = [content for _, content in loader.load(batches((4,), (5, 6)))]
    assert torch.cat([part[1] for part in first]).tolist() == torch.cat([part[1] for part in again]).tolist()


def test_a_failing_sample_is_named_and_the_loader_stays_usable():
    loader = IndexLoader(Squares(), LoaderOptions())
    with pytest.raises(SampleError, match=r"the training process, while loading samples \[12, 13\]") as caught:
        list(loader.load(batches((1,), (12, 13))))
    assert "no sample 13" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    assert [content[0].tolist() for _, content in loader.load(batches((2,)))] == [[4]]


def test_a_pass_that_was_ended_does_not_go_on():
    loader = IndexLoader(TensorDataset(torch.arange(4)), LoaderOptions())
    for end in (loader.restart, lambda: next(loader.load(batches((0,)))), loader.close):
        old = loader.load(batches((0,), (1,)))
        next(old)
        end()
        with pytest.raises(AssertionError, match="ended by restart"):
            next(old)
    with pytest.raises(AssertionError, match="closed"):
        next(loader.load(batches((0,))))


def test_pinned_batches_are_copied_here(monkeypatch):
    pinned = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr("raytide.train.data.loader._pin_memory", lambda batch: pinned.append(batch) or "pinned")
    loader = IndexLoader(Squares(), LoaderOptions(pin_memory=True))
    assert [content for _, content in loader.load(batches((1,), (2,)))] == ["pinned", "pinned"]
    assert len(pinned) == 2


def test_errors_survive_pickling():
    import pickle

    error = SampleError("data worker 1 (pid 7)", range(40), "boom")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert "14, 15, ... 40 in all]: boom" in str(copy)
    assert copy.indices == tuple(range(40))
