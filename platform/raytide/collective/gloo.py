"""Groups over gloo, through torch process groups built without the global default group.

What a caller must know about gloo (all seen in tests):

* An operation cannot be recalled. After an abort or a timeout it stays in flight until its own limit, and
  when a frozen peer wakes it still writes into its buffer: **never reuse a buffer of an aborted group**.
* A member that gives up an operation for its time limit closes all its connections, so the others see a
  closed connection although nobody died; its lifeline tells them the difference.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.distributed import distributed_c10d

from raytide.collective.errors import CollectiveError, CollectiveTimeout, PeerLost
from raytide.collective.retire import Owned
from raytide.collective.spec import GroupSpec, ReduceOp
from raytide.collective.store import KeyStore
from raytide.collective.transport import Handle, TransportFailure

# gloo's own limit comes after the group's, which tells a better story; it then frees threads and buffers.
GLOO_EXTRA_LIMIT_S = 1.0
SLICE_OVER = "Operation timed out!"
TIMEOUT_TEXTS = ("Timed out", "timed out", "Application timeout")
LOST_TEXTS = ("Connection closed", "Connection reset", "Broken pipe", "Socket closed", "readv", "writev")

DTYPES = {
    torch.bool,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
}
# Its stubs hide the options of single backends.
_dist: Any = distributed_c10d
_OPS = {
    ReduceOp.SUM: _dist.ReduceOp.SUM,
    ReduceOp.MAX: _dist.ReduceOp.MAX,
    ReduceOp.MIN: _dist.ReduceOp.MIN,
}


class GlooHandle:
    """One gloo operation; holds its tensors alive, as gloo itself does until the operation ends."""

    def __init__(self, work: Any) -> None:
        self._work = work

    def poll(self, timeout_s: float) -> bool:
        try:
            self._work.wait(timedelta(milliseconds=max(1, round(timeout_s * 1000))))
        except RuntimeError as error:
            text = str(error)
            if text.startswith(SLICE_OVER):
                return False
            raise TransportFailure(_kind_of(text), _first_line(text)) from error
        return True

    def done(self) -> bool:
        return bool(self._work.is_completed())


class GlooTransport:
    """Owns one ``ProcessGroupGloo``; after ``abandon`` or ``release`` every start fails."""

    def __init__(self, process_group: Any) -> None:
        self._owned = Owned(process_group)
        self._lock = threading.Lock()

    def refusal(self, tensor: Tensor) -> str:
        if tensor.device.type != "cpu":
            return f"a tensor is on {tensor.device}; gloo groups take CPU tensors"
        return "" if tensor.dtype in DTYPES else f"gloo has no {tensor.dtype}"

    def all_reduce(self, tensor: Tensor, op: ReduceOp, limit_s: float) -> Handle:
        options = _dist.AllreduceOptions()
        options.reduceOp = _OPS[op]
        return self._start("allreduce", ([tensor],), options, limit_s)

    def broadcast(self, tensor: Tensor, root: int, limit_s: float) -> Handle:
        options = _dist.BroadcastOptions()
        options.rootRank = root
        return self._start("broadcast", ([tensor],), options, limit_s)

    def reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: ReduceOp, limit_s: float) -> Handle:
        options = _dist.ReduceScatterOptions()
        options.reduceOp = _OPS[op]
        return self._start("reduce_scatter", ([output], [inputs]), options, limit_s)

    def all_gather(self, outputs: list[Tensor], tensor: Tensor, limit_s: float) -> Handle:
        return self._start("allgather", ([outputs], [tensor]), _dist.AllgatherOptions(), limit_s)

    def abandon(self) -> None:
        with self._lock:
            self._owned.retire()

    def release(self) -> None:
        self.abandon()

    def _start(self, method: str, tensors: tuple[Any, ...], options: Any, limit_s: float) -> Handle:
        options.timeout = timedelta(seconds=limit_s + GLOO_EXTRA_LIMIT_S)
        # Under the lock, so that no thread but the retiring one ever drops the last reference.
        with self._lock:
            if self._owned.value is None:
                raise TransportFailure(CollectiveError, "the group has ended")
            try:
                work = getattr(self._owned.value, method)(*tensors, options)
            except RuntimeError as error:
                raise TransportFailure(_kind_of(str(error)), _first_line(str(error))) from error
        return GlooHandle(work)


def open_gloo(spec: GroupSpec, store: KeyStore, timeout_s: float) -> GlooTransport:
    """Connects to all members; blocks up to ``timeout_s`` seconds and then raises ``RuntimeError``."""
    options = _dist.ProcessGroupGloo._Options()
    if spec.host is None:
        options._devices = [_dist.ProcessGroupGloo.create_default_device()]
    else:
        options._devices = [_dist.ProcessGroupGloo.create_device(hostname=spec.host)]
    options._timeout = timedelta(seconds=timeout_s)
    return GlooTransport(_dist.ProcessGroupGloo(store, spec.rank, spec.world_size, options))


def _kind_of(text: str) -> type[CollectiveError]:
    if any(mark in text for mark in TIMEOUT_TEXTS):
        return CollectiveTimeout
    if any(mark in text for mark in LOST_TEXTS):
        return PeerLost
    return CollectiveError


def _first_line(text: str) -> str:
    return text.splitlines()[0].split("This is typically caused")[0].strip()
