"""Messages between the training process and its data workers, over one Unix socket per worker.

A message is a pickle; large buffers (tensors, arrays, long bytes) travel beside it in an anonymous
memory file whose descriptor is sent along, so that the receiver maps them instead of copying. Compared
with ``torch.multiprocessing``: one descriptor per batch, closed once it is mapped, instead of one per
tensor that waits in the sender for its receiver; nothing in ``/dev/shm``, which containers limit to 64 MB by
default; and a batch stays whole when its sender is killed the moment after. Where the system has no
memory files (macOS), everything travels through the socket.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

cloudpickle: Any
try:
    cloudpickle = importlib.import_module("cloudpickle")
except ImportError:  # Ray carries a copy, but importing all of it makes workers start slower
    cloudpickle = importlib.import_module("ray.cloudpickle")

_HEADER = struct.Struct("=QQ")
_INLINE_BYTES = 32 * 1024
"""Up to this size a message goes through the socket: a memory file costs about as much as the copy."""
_ALIGN = 64


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # cloudpickle has no types
    """Pickles functions and classes of ``__main__`` by value, and plain tensors as out-of-band buffers."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is torch.Tensor and _is_plain(obj):
            flat: Any = obj.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
            return _tensor, (pickle.PickleBuffer(flat), obj.dtype, tuple(obj.shape))
        return super().reducer_override(obj)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether dtype, shape and bytes are all there is to it."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.numel() > 0
    )


def _tensor(buffer: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    view = memoryview(buffer)
    if view.readonly:
        view = memoryview(bytearray(view))
    return torch.frombuffer(view, dtype=dtype).reshape(shape)


@dataclass(frozen=True)
class Packed:
    """A message ready to be sent any number of times; ``file`` is the memory file or ``None``."""

    body: bytes
    file: int | None
    file_bytes: int

    def close(self) -> None:
        """Let go of the memory file; receivers that have it mapped keep it."""
        if self.file is not None:
            os.close(self.file)


def pack(message: Any) -> Packed:
    """Pickle a message; the caller must close the result."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(message)
    parts = [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    total = sum(_padded(part.nbytes) for part in parts)
    sizes = [part.nbytes for part in parts]
    if total <= _INLINE_BYTES or not hasattr(os, "memfd_create"):
        return Packed(pickle.dumps((sizes, b"".join(_pad(part) for part in parts))), None, 0)
    file = os.memfd_create("raytide-batch", os.MFD_CLOEXEC)
    try:
        offset = 0
        for part in parts:
            _write_all(file, part, offset)
            offset += _padded(part.nbytes)
        os.ftruncate(file, total)
    except BaseException:
        os.close(file)
        raise
    return Packed(pickle.dumps((sizes, None)), file, total)


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _pad(part: memoryview) -> bytes:
    return bytes(part).ljust(_padded(part.nbytes), b"\0")


def _write_all(file: int, part: memoryview, offset: int) -> None:
    view = part.cast("B")
    while view.nbytes:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def send(sock: socket.socket, packed: Packed) -> None:
    """Send a packed message; blocks while the peer's buffer is full.

    Raises:
        OSError: The peer is gone.
    """
    header = _HEADER.pack(len(packed.body), packed.file_bytes)
    files = [] if packed.file is None else [packed.file]
    sent = socket.send_fds(sock, [header], files)
    sock.sendall(header[sent:] + packed.body)


@dataclass(frozen=True)
class Received:
    """A message not yet unpickled."""

    body: bytes
    file: int | None
    file_bytes: int

    def unpack(self, *, private: bool = False) -> Any:
        """Unpickle the message, once. ``private``: writes to its buffers stay in this process."""
        sizes, inline = pickle.loads(self.body)  # noqa: S301 - from our own child or parent
        if self.file is None:
            return _loads(sizes, memoryview(bytearray(inline)))
        # Not the mmap module: it keeps a descriptor for as long as the mapping lives.
        path = f"/proc/self/fd/{self.file}"
        try:
            mapped = torch.from_file(path, shared=not private, size=self.file_bytes, dtype=torch.uint8)
        finally:
            os.close(self.file)
        data: Any = mapped.numpy()
        return _loads(sizes, memoryview(data))


def _loads(sizes: Sequence[int], data: memoryview) -> Any:
    parts = []
    offset = 0
    for size in sizes:
        parts.append(data[offset : offset + size])
        offset += _padded(size)
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - likewise


def receive(sock: socket.socket, wait: Callable[[], None] | None = None) -> Received | None:
    """Receive one message, or ``None`` when the peer is gone.

    Args:
        sock: A blocking socket.
        wait: Called before the message is read, for instance to look after the peer while waiting.
    """
    files: list[int] = []
    whole = False
    try:
        if wait:
            wait()
        head, files, _, _ = socket.recv_fds(sock, _HEADER.size, 1)
        head = _read(sock, _HEADER.size - len(head), head) if head else b""
        if len(head) < _HEADER.size:
            return None
        body_bytes, file_bytes = _HEADER.unpack(head)
        body = _read(sock, body_bytes, b"")
        whole = len(body) == body_bytes
        return Received(body, files[0] if files else None, file_bytes) if whole else None
    except OSError:
        return None
    finally:
        for file in () if whole else files:
            os.close(file)


def _read(sock: socket.socket, missing: int, start: bytes) -> bytes:
    parts = [start]
    while missing:
        part = sock.recv(missing)
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
