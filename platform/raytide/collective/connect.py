"""Joining a group without ever blocking the caller longer than it wants."""

from __future__ import annotations

import threading
import time

from raytide.collective.errors import CollectiveError, ConnectCancelled, ConnectRefused, ConnectTimeout
from raytide.collective.group import Group
from raytide.collective.join import Joining, open_group
from raytide.collective.mesh import PeerWentAway
from raytide.collective.nccl_open import check_available
from raytide.collective.rendezvous import Refused
from raytide.collective.retire import in_background
from raytide.collective.solo import SoloTransport
from raytide.collective.spec import GroupSpec

CANCEL_POLL_S = 0.01


def connect(spec: GroupSpec, *, cancelled: threading.Event | None = None) -> Group:
    """Joins a group; returns when all members have joined.

    Safe in a background thread beside a live group of the same process. A group of one member needs no store.

    Args:
        spec: Which group, and as which member.
        cancelled: Set from another thread, it ends the connect within about 20 ms.

    Raises:
        ConnectTimeout: Not all members joined within ``spec.connect_timeout_s``, or one that had arrived
            went away meanwhile.
        ConnectCancelled: ``cancelled`` was set.
        ConnectRefused: The name was used before, or the members disagree about size or backend.
        BackendUnavailable: The backend cannot run here.
    """
    if spec.backend == "nccl":
        check_available(spec)
    if spec.world_size == 1:
        return Group(spec, SoloTransport())
    attempt = _Attempt(spec)
    in_background(attempt.run, f"raytide-connect-{spec.name}")
    return attempt.result(cancelled)


class _Attempt:
    """One connect in a helper thread, so that whatever blocks in C++ costs only that thread."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._started_s = time.monotonic()
        self._ended = threading.Event()
        self._joining = Joining(spec, self._started_s + spec.connect_timeout_s)
        self._lock = threading.Lock()
        self._group: Group | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        """The helper thread."""
        try:
            self._hand_over(open_group(self._joining))
        except Exception as error:  # noqa: BLE001 - the edge of this thread; the calling thread raises it
            self._error = self._translated(error)
            self._joining.leave(str(self._error))
        finally:
            self._ended.set()

    def result(self, cancelled: threading.Event | None) -> Group:
        """The calling thread: waits for the helper, the time limit or the cancellation."""
        while not self._ended.wait(CANCEL_POLL_S):
            if cancelled is not None and cancelled.is_set():
                raise self._give_up(self._tell(ConnectCancelled, "cancelled by the caller"))
            if time.monotonic() >= self._joining.limit_at:
                raise self._give_up(self._late("the time is over"))
            gone = self._joining.who_left()
            if gone:
                raise self._give_up(self._late(gone))
        if self._error is not None:
            raise self._error
        assert self._group is not None, "the helper ended without a group and without an error"
        return self._group

    def _hand_over(self, group: Group) -> None:
        with self._lock:
            if not self._joining.given_up.is_set():
                self._group = group
                return
        group.abort("connect was given up")

    def _give_up(self, error: CollectiveError) -> CollectiveError:
        with self._lock:
            self._joining.given_up.set()
            group = self._group
        self._joining.leave(str(error))
        if group is not None:
            group.abort("connect was given up")
        return error

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, Refused):
            return self._tell(ConnectRefused, str(error))
        if isinstance(error, (RuntimeError, OSError, PeerWentAway)):
            return self._late(str(error).splitlines()[0])
        return error

    def _late(self, detail: str) -> CollectiveError:
        if self._joining.missing:
            ranks = f"ranks {self._joining.missing} of {self._spec.world_size}"
            detail = f"{ranks} have not arrived ({detail})"
        return self._tell(ConnectTimeout, detail)

    def _tell(self, kind: type[CollectiveError], detail: str) -> CollectiveError:
        seconds = time.monotonic() - self._started_s
        return kind(self._spec.name, "connect", self._spec.rank, seconds, detail)
