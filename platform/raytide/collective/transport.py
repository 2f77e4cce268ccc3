"""The border between a group, which knows limits, aborts and errors, and the library that moves the bytes."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from raytide.collective.errors import CollectiveError
from raytide.collective.spec import ReduceOp


class TransportFailure(Exception):
    """An operation failed inside a transport; the group turns it into ``kind`` with its own story."""

    def __init__(self, kind: type[CollectiveError], detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


class Handle(Protocol):
    """One operation in flight."""

    def poll(self, timeout_s: float, /) -> bool:
        """Waits up to ``timeout_s`` seconds; whether the operation ended well. Raises TransportFailure."""

    def done(self) -> bool:
        """Whether ``poll`` would answer at once. Never blocks."""


class Transport(Protocol):
    """Starts operations. Calls come one at a time; every tensor is dense and contiguous."""

    def refusal(self, tensor: Tensor, /) -> str:
        """Why this transport cannot take a tensor (device, dtype), or ``""``."""

    def all_reduce(self, tensor: Tensor, op: ReduceOp, limit_s: float, /) -> Handle: ...

    def broadcast(self, tensor: Tensor, root: int, limit_s: float, /) -> Handle: ...

    def reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: ReduceOp, limit_s: float, /) -> Handle: ...

    def all_gather(self, outputs: list[Tensor], tensor: Tensor, limit_s: float, /) -> Handle: ...

    def abandon(self) -> None:
        """Gives up everything in flight, in the background. Returns at once, may be called again."""

    def release(self) -> None:
        """Ends in the background, after what is in flight. Returns at once, may be called again."""


class Finished:
    """The handle of an operation that ended before it was returned."""

    def poll(self, _timeout_s: float) -> bool:
        return True

    def done(self) -> bool:
        return True
