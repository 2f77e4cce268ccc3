"""What a group and its control group share: the first failure, which is the failure of both."""

from __future__ import annotations

import threading
from collections.abc import Callable

from raytide.collective.errors import (
    CollectiveAborted,
    CollectiveError,
    CollectiveTimeout,
    PeerLost,
)
from raytide.collective.lifeline import Lifeline

# A killed peer's other connections close within this time, in seconds, of the first.
SAME_TIME_S = 0.02
_KINDS: dict[str, type[CollectiveError]] = {
    kind.__name__: kind for kind in (CollectiveAborted, CollectiveError, CollectiveTimeout, PeerLost)
}


class Fate:
    """Failure and end of one membership.

    Args:
        lifeline: Connections to the other members; ``None`` for a group of one.
    """

    def __init__(self, lifeline: Lifeline | None = None) -> None:
        self.failure: tuple[type[CollectiveError], str] | None = None
        self.closed = False
        self._lifeline = lifeline
        self._lock = threading.Lock()
        self._on_failure: list[Callable[[], None]] = []

    def on_failure(self, call: Callable[[], None]) -> None:
        """Runs ``call`` once at the first failure, in the thread that meets it; it must not block."""
        self._on_failure.append(call)

    def fail(self, kind: type[CollectiveError], detail: str) -> tuple[type[CollectiveError], str]:
        """Sets the failure unless there is one; tells the other members; returns the first one."""
        with self._lock:
            first = self.failure is None
            self.failure = failure = self.failure or (kind, detail)
        if first:
            if self._lifeline is not None:
                self._lifeline.leave(kind.__name__, detail)
            for call in self._on_failure:
                call()
        return failure

    def explain(self, kind: type[CollectiveError], detail: str) -> tuple[type[CollectiveError], str]:
        """A better failure than the transport's "connection closed": who left, and why."""
        if kind is not PeerLost or self._lifeline is None or self.failure is not None:
            return kind, detail
        return self._look(SAME_TIME_S) or (kind, detail)

    def look(self) -> None:
        """Fails if another member left because of a failure. Never blocks."""
        if self._lifeline is not None and self.failure is None:
            failure = self._look(0.0)
            if failure is not None:
                self.fail(*failure)

    def close(self) -> None:
        """The orderly end; the other members go on with what they have in flight."""
        self.closed = True
        if self._lifeline is not None and self.failure is None:
            self._lifeline.leave("closed", "")

    def _look(self, timeout_s: float) -> tuple[type[CollectiveError], str] | None:
        assert self._lifeline is not None
        farewell = self._lifeline.look(timeout_s)
        if farewell is None:
            return None
        if not farewell.kind:
            return PeerLost, farewell.detail
        detail = farewell.detail
        if not detail.startswith("rank "):
            detail = f"rank {farewell.rank} gave up: {detail}"
        return _KINDS.get(farewell.kind, CollectiveError), detail
