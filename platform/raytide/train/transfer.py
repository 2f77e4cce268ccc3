"""Moving a captured state over a group: header first, then the tensors in flat chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from raytide.collective import Group, Work
from raytide.train.captured import Captured, read_header

CHUNK_BYTES = 16 << 20
"""Large enough that latency does not count, small enough that packing overlaps with sending."""

ALONE_BYTES = 1 << 20
"""Parts from this size on travel as they lie in memory; smaller ones are packed together."""

_IN_FLIGHT = 3


def send_state(group: Group, state: Captured) -> int:
    """Send ``state`` from rank 0 to all other ranks of ``group``; returns its bytes."""
    header = torch.frombuffer(bytearray(state.header()), dtype=torch.uint8)
    group.control.broadcast(torch.tensor([header.numel()]), 0).wait()
    group.control.broadcast(header, 0).wait()
    in_flight: deque[Work] = deque()
    for device_group, tensors in _by_group(group, state.tensors):
        for chunk in chunks(tensors, CHUNK_BYTES):
            in_flight.append(device_group.broadcast(_packed(chunk), 0))
            if len(in_flight) >= _IN_FLIGHT:
                in_flight.popleft().wait()
    while in_flight:
        in_flight.popleft().wait()
    return state.size_bytes + header.numel()


def receive_state(group: Group, device: torch.device) -> Captured:
    """Receive what rank 0 of ``group`` sends into new memory."""
    length = torch.zeros(1, dtype=torch.int64)
    group.control.broadcast(length, 0).wait()
    header = torch.empty(int(length.item()), dtype=torch.uint8)
    group.control.broadcast(header, 0).wait()
    skeleton, specs = read_header(header.numpy().tobytes())
    tensors = tuple(spec.empty(device) for spec in specs)
    in_flight: deque[_Arriving] = deque()
    for device_group, mine in _by_group(group, tensors):
        for chunk in chunks(mine, CHUNK_BYTES):
            in_flight.append(_Arriving(device_group, chunk))
            if len(in_flight) >= _IN_FLIGHT:
                in_flight.popleft().finish()
    while in_flight:
        in_flight.popleft().finish()
    return Captured(skeleton, tensors)


def _packed(chunk: Sequence[Tensor]) -> Tensor:
    """The bytes of a chunk in one tensor; a chunk of one part is that part itself."""
    flat = [part.reshape(-1).view(torch.uint8) for part in chunk]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


class _Arriving:
    """A chunk on its way into the tensors it belongs to."""

    def __init__(self, group: Group, chunk: Sequence[Tensor]) -> None:
        self._chunk = chunk
        alone = len(chunk) == 1
        size = sum(_bytes(part) for part in chunk)
        self._buffer = (
            chunk[0].view(torch.uint8) if alone else torch.empty(size, dtype=torch.uint8, device=chunk[0].device)
        )
        self._work = group.broadcast(self._buffer, 0)

    def finish(self) -> None:
        self._work.wait()
        if len(self._chunk) > 1:
            _scatter(self._buffer, self._chunk)


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


def chunks(tensors: Sequence[Tensor], limit_bytes: int) -> Iterator[list[Tensor]]:
    """Cut tensors into flat parts, and pack small parts into chunks of at most ``limit_bytes``.

    The cut depends on shapes and dtypes only: it is the same on both sides.
    """
    packed: list[Tensor] = []
    room = limit_bytes
    for part in (part for tensor in tensors for part in _parts(tensor, limit_bytes)):
        if _bytes(part) >= ALONE_BYTES:
            yield [part]
            continue
        if _bytes(part) > room:
            yield packed
            packed, room = [], limit_bytes
        packed.append(part)
        room -= _bytes(part)
    if packed:
        yield packed


def _parts(tensor: Tensor, limit_bytes: int) -> Iterator[Tensor]:
    flat = tensor.reshape(-1)
    step = max(1, limit_bytes // tensor.element_size())
    for start in range(0, flat.numel(), step):
        yield flat[start : start + step]


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
