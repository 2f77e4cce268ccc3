from __future__ import annotations

import gc
import os
import socket
import threading
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raytide.train.data import wire


@pytest.fixture
def ends():
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


def through(ends, message, **options):
    packed = wire.pack(message)
    wire.send(ends[0], packed)
    packed.close()
    received = wire.receive(ends[1])
    assert received is not None
    return received.unpack(**options)


def descriptors():
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


TENSORS = {
    "small": torch.arange(6).reshape(2, 3),
    "large": torch.arange(100_000, dtype=torch.float32).reshape(100, 1000),
    "bfloat16": torch.ones(5, 7, dtype=torch.bfloat16),
    "bool": torch.tensor([True, False]),
    "complex": torch.tensor([1 + 2j]),
    "scalar": torch.tensor(3.5),
    "empty": torch.zeros(0, 4),
    "transposed": torch.arange(12).reshape(3, 4).t(),
    "conjugate": torch.tensor([1 + 2j]).conj(),
    "sparse": torch.eye(3).to_sparse(),
}


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("name", TENSORS)
def test_tensors_arrive_as_they_were(ends, name):
    sent = TENSORS[name]
    got = through(ends, {"x": sent})["x"]
    assert (got.dtype, got.shape, got.layout) == (sent.dtype, sent.shape, sent.layout)
    assert torch.equal(got.to_dense(), sent.to_dense())


def test_gradients_are_kept_by_the_slow_path(ends):
    assert through(ends, torch.ones(3, requires_grad=True)).requires_grad


def test_batches_can_be_changed_in_place(ends):
    for size in (4, 100_000):
        tensor, array = through(ends, (torch.zeros(size), np.zeros(size)))
        tensor += 1
        array += 1
        assert tensor.sum() == array.sum() == size


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 40_000), max_size=6))
def test_nested_content_of_any_size_arrives(sizes):
    ends = socket.socketpair()
    message = [{"t": torch.full((size,), 7, dtype=torch.uint8), "b": b"x" * size} for size in sizes]
    got = through(ends, message)
    assert [(len(part["t"]), part["b"]) for part in got] == [(size, b"x" * size) for size in sizes]
    for end in ends:
        end.close()


def test_two_buffers_do_not_overlap(ends):
    one, two = through(ends, (torch.zeros(33_333, dtype=torch.uint8), torch.ones(33_333, dtype=torch.uint8)))
    one += 5
    assert two.unique().tolist() == [1]


def test_classes_of_main_keep_their_identity(ends):
    local = namedtuple("local", "a b")  # noqa: PYI024 - a class that is made at run time
    got = through(ends, local(torch.ones(2), 3))
    assert type(got) is local


def test_a_message_survives_its_sender(ends):
    wire.send(ends[0], packed := wire.pack(torch.ones(1_000_000)))
    packed.close()
    ends[0].close()
    assert wire.receive(ends[1]).unpack().sum() == 1_000_000
    assert wire.receive(ends[1]) is None


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_no_descriptor_is_left_open(ends):
    through(ends, 1)
    before = descriptors()
    kept = [through(ends, torch.ones(100_000)) for _ in range(20)]
    assert descriptors() == before
    assert len(kept) == 20


def test_private_receivers_do_not_see_each_others_writes(ends):
    packed = wire.pack(torch.zeros(100_000))
    tensors = []
    for _ in range(2):
        wire.send(ends[0], packed)
        tensors.append(wire.receive(ends[1]).unpack(private=True))
    packed.close()
    tensors[0] += 1
    assert tensors[1].sum() == 0


@pytest.mark.parametrize("cut", [0, 5, 20])
def test_an_interrupted_message_is_the_end(ends, cut):
    whole = []

    class Recorder:
        sendall = staticmethod(whole.append)
        sendmsg = staticmethod(lambda buffers, *_: whole.extend(bytes(b) for b in buffers) or 16)

    wire.send(Recorder(), packed := wire.pack("hello"))
    packed.close()
    ends[0].sendall(b"".join(whole)[:cut])
    ends[0].close()
    assert wire.receive(ends[1]) is None


def test_everything_goes_through_the_socket_without_memory_files(ends, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    packed = wire.pack(torch.arange(20_000))
    assert packed.file is None
    ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    wire.send(ends[0], packed)
    assert wire.receive(ends[1]).unpack().sum() == sum(range(20_000))


def test_what_cannot_be_pickled_leaves_nothing_open():
    before = descriptors()
    with pytest.raises(TypeError, match="pickle"):
        wire.pack((torch.ones(100_000), threading.Lock()))
    assert descriptors() == before
