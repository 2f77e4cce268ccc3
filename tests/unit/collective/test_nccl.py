"""What of NCCL groups can be told without a GPU."""

from __future__ import annotations

import sys
import threading
import types

import pytest
import torch

from raytide.collective import BackendUnavailable, GroupSpec, ReduceOp, StoreAddress, connect
from raytide.collective.mesh import PeerWentAway
from raytide.collective.nccl_names import NCCL_OPS, are_adjacent, spans
from raytide.collective.nccl_open import _unique_id, nccl_version, unavailable_reason
from unit.collective.fakes import FakeStore


def spec(rank: int) -> GroupSpec:
    return GroupSpec("job/1", rank, 2, StoreAddress("localhost", 4000), backend="nccl")


def test_without_a_device_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BackendUnavailable, match=r"pip install 'raytide\[cuda12\]'"):
        connect(spec(0))


def test_without_cupy_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "cannot be imported" in unavailable_reason()
    assert "raytide[cuda12]" in unavailable_reason()


def test_the_version_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.SimpleNamespace(get_version=lambda: 23007, available=True)
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", library)
    monkeypatch.setitem(sys.modules, "cupy.cuda", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace())
    assert nccl_version() == "2.30.7"


def test_rank_0_makes_the_id_and_the_others_take_it() -> None:
    store, made = FakeStore(), bytes(range(128))
    library = types.SimpleNamespace(get_unique_id=lambda: made)
    assert _unique_id(library, spec(0), store, threading.Event()) == made
    assert _unique_id(None, spec(1), store, threading.Event()) == made


def test_an_old_cupy_is_refused() -> None:
    library = types.SimpleNamespace(get_unique_id=lambda: (1, 2, 3))
    with pytest.raises(BackendUnavailable, match="older than 14"):
        _unique_id(library, spec(0), FakeStore(), threading.Event())


def test_the_wait_for_the_id_can_be_given_up() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(PeerWentAway):
        _unique_id(None, spec(1), FakeStore(), stop)


def test_views_of_one_buffer_are_adjacent() -> None:
    whole = torch.zeros(12)
    parts = list(whole.chunk(3))
    assert are_adjacent(parts)
    assert not are_adjacent(parts[::-1])
    assert not are_adjacent([parts[0], parts[2]])


@pytest.mark.parametrize(("count", "expected"), [(0, []), (3, [(0, 3)]), (4, [(0, 4)]), (9, [(0, 4), (4, 4), (8, 1)])])
def test_long_broadcasts_are_split(count: int, expected: list[tuple[int, int]]) -> None:
    assert spans(count, part=4) == expected


def test_every_reduction_has_a_number() -> None:
    assert set(NCCL_OPS) == set(ReduceOp)
