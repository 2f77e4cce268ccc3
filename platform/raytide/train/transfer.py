"""Moving a captured state over a group: header first, then the tensors in flat chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from raytide.collective import Group, Work
from raytide.train.captured import Captured, read_header

CHUNK_BYTES = 16 << 20
"""Large enough that latency does not count, small enough that copying overlaps with sending."""

_IN_FLIGHT = 3


def send_state(group: Group, state: Captured) -> int:
    """Send ``state`` from rank 0 to all other ranks of ``group``; returns its bytes."""
    header = torch.frombuffer(bytearray(state.header()), dtype=torch.uint8)
    group.control.broadcast(torch.tensor([header.numel()]), 0).wait()
    group.control.broadcast(header, 0).wait()
    window = _Window()
    for device_group, tensors in _by_group(group, state.tensors):
        for chunk in chunks(tensors, CHUNK_BYTES):
            buffer = torch.cat([part.reshape(-1).view(torch.uint8) for part in chunk])
            window.add(device_group.broadcast(buffer, 0))
    window.drain()
    return state.size_bytes + header.numel()


def receive_state(group: Group, device: torch.device) -> Captured:
    """Receive what rank 0 of ``group`` sends into new memory."""
    length = torch.zeros(1, dtype=torch.int64)
    group.control.broadcast(length, 0).wait()
    header = torch.empty(int(length.item()), dtype=torch.uint8)
    group.control.broadcast(header, 0).wait()
    skeleton, specs = read_header(header.numpy().tobytes())
    tensors = tuple(spec.empty(device) for spec in specs)
    for device_group, mine in _by_group(group, tensors):
        for chunk in chunks(mine, CHUNK_BYTES):
            buffer = torch.empty(sum(_bytes(p) for p in chunk), dtype=torch.uint8, device=chunk[0].device)
            device_group.broadcast(buffer, 0).wait()
            _scatter(buffer, chunk)
    return Captured(skeleton, tensors)


def gather_objects(group: Group, value: bytes) -> list[bytes]:
    """Every member's ``value``, in rank order."""
    control = group.control
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(control.world_size)]
    control.all_gather(lengths, torch.tensor([len(value)])).wait()
    longest = max(1, *(int(n.item()) for n in lengths))
    padded = torch.zeros(longest, dtype=torch.uint8)
    padded[: len(value)] = torch.frombuffer(bytearray(value), dtype=torch.uint8) if value else padded[:0]
    outputs = [torch.zeros(longest, dtype=torch.uint8) for _ in lengths]
    control.all_gather(outputs, padded).wait()
    return [out[: int(n.item())].numpy().tobytes() for out, n in zip(outputs, lengths, strict=True)]


class _Window:
    """A few operations in flight at a time."""

    def __init__(self) -> None:
        self._works: deque[Work] = deque()

    def add(self, work: Work) -> None:
        self._works.append(work)
        if len(self._works) >= _IN_FLIGHT:
            self._works.popleft().wait()

    def drain(self) -> None:
        while self._works:
            self._works.popleft().wait()


def chunks(tensors: Sequence[Tensor], limit_bytes: int) -> Iterator[list[Tensor]]:
    """Cut tensors into flat parts and pack parts into chunks of at most ``limit_bytes``; same on both sides."""
    chunk: list[Tensor] = []
    room = limit_bytes
    for tensor in tensors:
        flat = tensor.reshape(-1)
        step = max(1, limit_bytes // max(1, tensor.element_size()))
        for start in range(0, flat.numel(), step):
            part = flat[start : start + step]
            if _bytes(part) > room and chunk:
                yield chunk
                chunk, room = [], limit_bytes
            chunk.append(part)
            room -= _bytes(part)
    if chunk:
        yield chunk


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _by_group(group: Group, tensors: Sequence[Tensor]) -> list[tuple[Group, list[Tensor]]]:
    """CPU tensors travel over the control group, device tensors over the group itself."""
    on_cpu = [t for t in tensors if t.device.type == "cpu"]
    on_device = [t for t in tensors if t.device.type != "cpu"]
    return [(g, ts) for g, ts in ((group.control, on_cpu), (group, on_device)) if ts]


def _scatter(buffer: Tensor, parts: Sequence[Tensor]) -> None:
    start = 0
    for part in parts:
        stop = start + _bytes(part)
        raw = buffer[start:stop]
        # A view as a wider dtype needs an aligned start; what follows an odd number of bytes is copied once.
        aligned = raw if start % part.element_size() == 0 else raw.clone()
        part.copy_(aligned.view(part.dtype))
        start = stop
