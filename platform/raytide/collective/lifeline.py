"""One idle TCP connection between any two members of a group, which tells how a member left.

Neither gloo nor NCCL says who died, and NCCL may not notice at all. The kernel closes the connections of a
killed process at once: an end without a goodbye means that the member is lost; a goodbye carries the reason
of an abort to members that wait for something else. Nothing is sent while all is well and no thread
listens: whoever waits for an operation looks.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from dataclasses import dataclass

FAREWELL_BYTES = 4096


@dataclass(frozen=True)
class Farewell:
    """How a member left: ``kind`` is the name of an error class, or ``""`` if it was lost without a word."""

    rank: int
    kind: str
    detail: str


class Lifeline:
    """The connections of one member to all others.

    Args:
        sockets: One connected socket per other rank; owned from now on.
    """

    def __init__(self, sockets: dict[int, socket.socket]) -> None:
        self._sockets = sockets
        self._poll = select.poll()
        self._rank_of: dict[int, int] = {}
        self._lock = threading.Lock()
        for rank, sock in sockets.items():
            sock.setblocking(False)
            self._rank_of[sock.fileno()] = rank
            self._poll.register(sock, select.POLLIN)

    def look(self, timeout_s: float = 0.0) -> Farewell | None:
        """The next member that left because of a failure, if any; waits up to ``timeout_s`` seconds for one.

        Members that closed in order are forgotten silently. While another thread looks, answers ``None``.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            for fd, _ in self._poll.poll(timeout_s * 1000):
                farewell = self._read(self._rank_of[fd])
                if farewell is not None:
                    return farewell
            return None
        finally:
            self._lock.release()

    def leave(self, kind: str, detail: str) -> None:
        """Says goodbye to all and closes. ``kind`` ``"closed"`` is the orderly end. Never blocks."""
        message = json.dumps([kind, detail[: FAREWELL_BYTES // 8]]).encode()
        with self._lock:
            for rank in list(self._sockets):
                # A member that is gone already, or never reads, learns nothing from us.
                with contextlib.suppress(OSError):
                    self._sockets[rank].send(message)
                self._forget(rank)

    def _read(self, rank: int) -> Farewell | None:
        try:
            message = self._sockets[rank].recv(FAREWELL_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            message = b""
        self._forget(rank)
        if not message:
            return Farewell(rank, "", f"rank {rank} is gone: its connection closed without a goodbye")
        kind, detail = json.loads(message)
        return None if kind == "closed" else Farewell(rank, kind, detail)

    def _forget(self, rank: int) -> None:
        sock = self._sockets.pop(rank)
        self._poll.unregister(sock)
        del self._rank_of[sock.fileno()]
        sock.close()
