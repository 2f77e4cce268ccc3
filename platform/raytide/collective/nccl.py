"""Operations over NCCL, through ``cupy.cuda.nccl``, on a CUDA stream of their own.

The host waits for an operation's event before anything may use its result. A stream-ordered wait would not
do: kernels queued behind an aborted all-reduce run on garbage.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from raytide.collective.errors import CollectiveError
from raytide.collective.nccl_names import NCCL_DTYPES, NCCL_OPS, are_adjacent, spans
from raytide.collective.retire import in_background
from raytide.collective.spec import ReduceOp
from raytide.collective.transport import Handle, TransportFailure

ABORT_LIMIT_S = 1.0
CLOSE_LIMIT_S = 5.0
CLOSE_POLL_S = 0.005
SPIN_S = 0.0002
NAP_S = 0.0001


class NcclHandle:
    """One operation on the transport's stream, complete when its event is."""

    def __init__(self, transport: NcclTransport, ended: torch.cuda.Event) -> None:
        self._transport = transport
        self._ended = ended

    def poll(self, timeout_s: float) -> bool:
        begin = time.perf_counter()
        while not self._ended.query():
            waited_s = time.perf_counter() - begin
            if waited_s >= timeout_s:
                self._transport.check()
                return False
            if waited_s > SPIN_S:
                time.sleep(NAP_S)
        self._transport.check()
        torch.cuda.current_stream(self._transport.device).wait_event(self._ended)
        return True

    def done(self) -> bool:
        return bool(self._ended.query())


class NcclTransport:
    """Owns one NCCL communicator and one CUDA stream.

    Args:
        communicator: A connected ``cupy.cuda.nccl.NcclCommunicator``; owned from now on.
        library: The module ``cupy.cuda.nccl``.
        device: The GPU of this member.
    """

    def __init__(self, communicator: Any, library: Any, device: torch.device) -> None:
        self.device = device
        self._communicator = communicator
        self._library = library
        self._stream = torch.cuda.Stream(device)
        self._lock = threading.Lock()

    def refusal(self, tensor: Tensor) -> str:
        if tensor.device != self.device:
            return f"a tensor is on {tensor.device}, this group works on {self.device}"
        return "" if tensor.dtype in NCCL_DTYPES else f"NCCL has no {tensor.dtype}"

    def all_reduce(self, tensor: Tensor, op: ReduceOp, _limit_s: float) -> Handle:
        dtype, pointer = NCCL_DTYPES[tensor.dtype], tensor.data_ptr()

        def call(communicator: Any, stream: int) -> None:
            communicator.allReduce(pointer, pointer, tensor.numel(), dtype, NCCL_OPS[op], stream)

        return self._launch([tensor], call)

    def broadcast(self, tensor: Tensor, root: int, _limit_s: float) -> Handle:
        def call(communicator: Any, stream: int) -> None:
            _broadcast(communicator, tensor, tensor, root, stream)

        return self._launch([tensor], call)

    def reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: ReduceOp, _limit_s: float) -> Handle:
        def call(communicator: Any, stream: int) -> None:
            last = (output.data_ptr(), output.numel(), NCCL_DTYPES[output.dtype], NCCL_OPS[op])
            if are_adjacent(inputs):
                communicator.reduceScatter(inputs[0].data_ptr(), *last, stream)
                return
            self._library.groupStart()
            for root, part in enumerate(inputs):
                communicator.reduce(part.data_ptr(), *last, root, stream)
            self._library.groupEnd()

        return self._launch([output, *inputs], call)

    def all_gather(self, outputs: list[Tensor], tensor: Tensor, _limit_s: float) -> Handle:
        def call(communicator: Any, stream: int) -> None:
            if are_adjacent(outputs):
                into, dtype = outputs[0].data_ptr(), NCCL_DTYPES[tensor.dtype]
                communicator.allGather(tensor.data_ptr(), into, tensor.numel(), dtype, stream)
                return
            self._library.groupStart()
            for root, part in enumerate(outputs):
                _broadcast(communicator, tensor, part, root, stream)
            self._library.groupEnd()

        return self._launch([tensor, *outputs], call)

    def check(self) -> None:
        """Raises TransportFailure if NCCL met an error in the background."""
        with self._lock:
            if self._communicator is not None:
                _translate(self._communicator.check_async_error)

    def abandon(self) -> None:
        """Aborts the communicator, which ends its kernels; returns within ``ABORT_LIMIT_S`` seconds."""
        communicator = self._take()
        if communicator is not None:
            thread = in_background(communicator.abort, "raytide-nccl-abort")
            if thread is not None:
                thread.join(ABORT_LIMIT_S)

    def release(self) -> None:
        communicator = self._take()
        if communicator is not None:
            in_background(lambda: self._destroy(communicator), "raytide-nccl-destroy")

    def _launch(self, tensors: list[Tensor], call: Callable[[Any, int], None]) -> Handle:
        with self._lock, torch.cuda.device(self.device):
            if self._communicator is None:
                raise TransportFailure(CollectiveError, "the group has ended")
            # The caller's kernels that fill the tensors come first, and its frees come after this operation.
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
            for tensor in tensors:
                tensor.record_stream(self._stream)
            _translate(lambda: call(self._communicator, self._stream.cuda_stream))
            ended = torch.cuda.Event()
            ended.record(self._stream)
        return NcclHandle(self, ended)

    def _destroy(self, communicator: Any) -> None:
        until = time.monotonic() + CLOSE_LIMIT_S
        while not self._stream.query() and time.monotonic() < until:
            time.sleep(CLOSE_POLL_S)
        # A destroy would wait for ever for the kernels of an operation that never ends.
        if self._stream.query():
            communicator.destroy()
        else:
            communicator.abort()

    def _take(self) -> Any:
        with self._lock:
            communicator, self._communicator = self._communicator, None
        return communicator


def _broadcast(communicator: Any, source: Tensor, target: Tensor, root: int, stream: int) -> None:
    size = source.element_size()
    for begin, count in spans(source.numel()):
        sent, received = source.data_ptr() + begin * size, target.data_ptr() + begin * size
        communicator.broadcast(sent, received, count, NCCL_DTYPES[source.dtype], root, stream)


def _translate(call: Callable[[], None]) -> None:
    """Turns an NcclError, which is a RuntimeError, into a TransportFailure."""
    try:
        call()
    except RuntimeError as error:
        raise TransportFailure(CollectiveError, str(error)) from error
