"""One operation in flight, with its time limit and its way out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from raytide.collective.errors import CollectiveTimeout
from raytide.collective.transport import Handle, TransportFailure

if TYPE_CHECKING:
    from raytide.collective.group import Group

# An abort is seen after one slice at the latest. Shorter ones cost: each that passes is a C++ exception.
SLICE_S = 0.02


class Operation(NamedTuple):
    """The story of one operation: its number in the group, on what, since when (monotonic seconds)."""

    kind: str
    number: int
    dtype: torch.dtype
    shape: torch.Size
    started_s: float

    def __str__(self) -> str:
        return f"{self.kind} #{self.number} {str(self.dtype).removeprefix('torch.')}{list(self.shape)}"

    def seconds(self) -> float:
        return time.monotonic() - self.started_s


class Work:
    """A started operation. Its tensors belong to the group until ``wait()`` has returned.

    Operations may be waited for in any order and from any thread.
    """

    def __init__(self, group: Group, operation: Operation, handle: Handle) -> None:
        self._group = group
        self._operation = operation
        self._handle: Handle | None = handle

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when the operation has ended and its result may be read.

        Args:
            timeout_s: How long this call may block, in seconds; ``None``: until the operation's own limit.

        Raises:
            CollectiveTimeout: ``timeout_s`` passed (the operation goes on and may be waited for again), or
                the operation's own limit did (the group is over).
            CollectiveAborted: The group was aborted before or during this call.
            PeerLost: A member's connections closed.
        """
        self._group.check(self._operation)
        if self._handle is None:
            return
        now = time.monotonic()
        limit_at = self._operation.started_s + self._group.timeout_s
        until = limit_at if timeout_s is None else min(limit_at, now + timeout_s)
        try:
            if not self._handle.poll(min(SLICE_S, max(0.0, until - now))):
                self._wait_in_slices(self._handle, until, limit_at)
        except TransportFailure as failure:
            raise self._group.fail(failure.kind, failure.detail, self._operation) from failure
        # Kernels end when their group is aborted, and an operation that others gave up still completes when
        # the last member joins in: without this look both would pass for a result.
        self._group.look(self._operation)
        self._handle = None

    def done(self) -> bool:
        """Whether ``wait()`` would return or raise at once. Never blocks."""
        return self._handle is None or self._group.failed or self._handle.done()

    def _wait_in_slices(self, handle: Handle, until: float, limit_at: float) -> None:
        with self._group.waiting(self._operation):
            while True:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise self._late(until >= limit_at)
                if handle.poll(min(SLICE_S, left_s)):
                    return
                self._group.look(self._operation)

    def _late(self, limit_passed: bool) -> Exception:
        if limit_passed:
            detail = f"not all members took part within the limit of {self._group.timeout_s:g} s"
            return self._group.fail(CollectiveTimeout, detail, self._operation)
        return self._group.story(CollectiveTimeout, "still in flight", self._operation)
