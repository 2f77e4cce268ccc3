"""A group: a fixed, ordered set of members that reduce, gather and broadcast tensors together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from raytide.collective.errors import CollectiveAborted, CollectiveError, GroupClosed, InvalidOperation
from raytide.collective.fate import Fate
from raytide.collective.spec import GroupSpec, ReduceOp
from raytide.collective.transport import Handle, Transport, TransportFailure
from raytide.collective.work import Operation, Work


class Group:
    """One membership of a job, connected.

    All members start the same operations in the same order; results may be awaited in any order. Methods may
    be called from any thread. The first failure is the end of a group: what is in flight and every later call
    raises it, on every member that looks. A buffer that took part in an operation of a failed group must
    never be used again, because the operation may still write to it.

    Args:
        spec: Who this member is.
        transport: Moves the bytes; owned from now on.
        fate: Shared with ``control``; ``None`` for a group of one.
        control: The gloo group of the same members, where ``transport`` is another one.
    """

    def __init__(
        self, spec: GroupSpec, transport: Transport, fate: Fate | None = None, control: Group | None = None
    ) -> None:
        self.name = spec.name
        self.rank = spec.rank
        self.world_size = spec.world_size
        self.backend = spec.backend
        self.timeout_s = spec.timeout_s
        self._transport = transport
        self._control = control
        self._start_lock = threading.Lock()
        self._fate = fate or Fate()
        self._fate.on_failure(transport.abandon)
        self._count = 0
        self._last: Operation | None = None
        self._waits: dict[int, Operation] = {}

    @property
    def control(self) -> Group:
        """The gloo group of the same members for small CPU tensors; a gloo group may be its own."""
        return self if self._control is None else self._control

    @property
    def failed(self) -> bool:
        """Whether the group is over: aborted, timed out, or a peer was lost."""
        return self._fate.failure is not None

    @property
    def last_operation(self) -> str | None:
        """The operation started last (``"all_reduce #12 float32[1024]"``); readable from any thread."""
        return None if self._last is None else str(self._last)

    @property
    def waiting_for(self) -> str | None:
        """The operation that a thread has been waiting for longest, with its age, or ``None``.

        Waits shorter than one slice (20 ms) never show here.
        """
        waits = list(self._waits.values())
        if not waits:
            return None
        oldest = min(waits, key=lambda operation: operation.number)
        return f"{oldest} for {oldest.seconds():.1f} s"

    def all_reduce(self, tensor: Tensor, op: ReduceOp = ReduceOp.SUM) -> Work:
        """Replaces ``tensor`` on every member by the element-wise reduction over all members."""

        def start() -> Handle:
            return self._transport.all_reduce(tensor, op, self.timeout_s)

        return self._start("all_reduce", [tensor], start)

    def broadcast(self, tensor: Tensor, root: int) -> Work:
        """Replaces ``tensor`` on every member by the one of rank ``root``."""

        def start() -> Handle:
            return self._transport.broadcast(tensor, root, self.timeout_s)

        if not 0 <= root < self.world_size:
            raise self._invalid("broadcast", f"root {root} is no rank of {self.world_size} members")
        return self._start("broadcast", [tensor], start)

    def reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: ReduceOp = ReduceOp.SUM) -> Work:
        """Writes to ``output`` of rank r the reduction over all members of their ``inputs[r]``.

        Args:
            output: Any shape; the same on every member.
            inputs: One tensor per rank, each of the output's shape and dtype.
            op: How values are combined.
        """

        def start() -> Handle:
            return self._transport.reduce_scatter(output, inputs, op, self.timeout_s)

        self._check_parts("reduce_scatter", "inputs", inputs, output)
        return self._start("reduce_scatter", [output, *inputs], start)

    def all_gather(self, outputs: list[Tensor], tensor: Tensor) -> Work:
        """Writes to ``outputs[r]`` on every member the ``tensor`` of rank r; all of one shape and dtype."""

        def start() -> Handle:
            return self._transport.all_gather(outputs, tensor, self.timeout_s)

        self._check_parts("all_gather", "outputs", outputs, tensor)
        return self._start("all_gather", [tensor, *outputs], start)

    def barrier(self, timeout_s: float | None = None) -> None:
        """Returns when every member has called it; raises as :meth:`Work.wait` does."""
        self.control.all_reduce(torch.zeros(1, dtype=torch.int32)).wait(timeout_s)

    def abort(self, reason: str) -> None:
        """Makes every wait in flight (within about 20 ms) and every later call raise CollectiveAborted.

        The other members' waits raise it too. From any thread, any number of times; the first reason counts.
        Returns at once over gloo, within :data:`raytide.collective.nccl.ABORT_LIMIT_S` over NCCL.
        """
        self.fail(CollectiveAborted, reason, None)

    def close(self) -> None:
        """Ends the group in the background. What is in flight may still be awaited, new ones are refused."""
        self._fate.close()
        self._transport.release()
        if self._control is not None:
            self._control.close()

    def check(self, operation: Operation | None = None) -> None:
        """Raises the group's failure, if it has one, as that of ``operation``."""
        if self._fate.failure is not None:
            raise self.story(*self._fate.failure, operation)

    def look(self, operation: Operation | None = None) -> None:
        """As :meth:`check`, but first looks whether another member left. Never blocks."""
        self._fate.look()
        self.check(operation)

    def fail(self, kind: type[CollectiveError], detail: str, operation: Operation | None) -> CollectiveError:
        """Ends the group, if nothing ended it before; returns the error to raise for ``operation``."""
        return self.story(*self._fate.fail(*self._fate.explain(kind, detail)), operation)

    def story(self, kind: type[CollectiveError], detail: str, operation: Operation | None) -> CollectiveError:
        """An error that tells group, rank, operation and seconds."""
        operation = operation or self._last
        text, seconds = ("no operation", 0.0) if operation is None else (str(operation), operation.seconds())
        return kind(self.name, text, self.rank, seconds, detail)

    @contextmanager
    def waiting(self, operation: Operation) -> Iterator[None]:
        """Shows ``operation`` in :attr:`waiting_for` meanwhile."""
        key = threading.get_ident()
        self._waits[key] = operation
        try:
            yield
        finally:
            del self._waits[key]

    def _start(self, kind: str, tensors: list[Tensor], start: Callable[[], Handle]) -> Work:
        for tensor in tensors:
            if not tensor.is_contiguous():
                raise self._invalid(kind, "a tensor is not contiguous; pass tensor.contiguous()")
            refusal = self._transport.refusal(tensor)
            if refusal:
                raise self._invalid(kind, refusal)
        dtype, shape = tensors[0].dtype, tensors[0].shape
        with self._start_lock:
            operation = Operation(kind, self._count + 1, dtype, shape, time.monotonic())
            if self._fate.closed:
                raise self.story(GroupClosed, "the group was closed before", operation)
            self.check(operation)
            try:
                handle = start()
            except TransportFailure as failure:
                raise self.fail(failure.kind, failure.detail, operation) from failure
            self._count += 1
            self._last = operation
        return Work(self, operation, handle)

    def _check_parts(self, kind: str, name: str, parts: list[Tensor], whole: Tensor) -> None:
        if len(parts) != self.world_size:
            raise self._invalid(kind, f"{len(parts)} {name} for {self.world_size} members")
        if any(part.shape != whole.shape or part.dtype != whole.dtype for part in parts):
            detail = f"{name} differ in shape or dtype from {list(whole.shape)} {whole.dtype}"
            raise self._invalid(kind, detail)

    def _invalid(self, kind: str, detail: str) -> InvalidOperation:
        return InvalidOperation(self.name, kind, self.rank, 0.0, detail)
