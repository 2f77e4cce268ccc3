"""Connecting the lifelines of a group: a member dials the lower ranks and is dialled by the higher ones."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct
import threading
import time

from raytide.collective.lifeline import Lifeline

STEP_S = 0.05
_HELLO = struct.Struct("!16sI")


class PeerWentAway(Exception):
    """A member that had arrived does not answer any more."""


class Doorbell:
    """A member's listening socket; ``address`` (``"host:port"``) goes to the others through the store.

    Args:
        host: Address to listen on.
        name: Name of the group; a caller from another group is turned away.
        world_size: Number of members.
    """

    def __init__(self, host: str, name: str, world_size: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=world_size)
        self._tag = hashlib.sha256(name.encode()).digest()[:16]
        self.address = f"{host}:{self._listener.getsockname()[1]}"

    def connect(self, rank: int, addresses: list[str], limit_at: float, stop: threading.Event) -> Lifeline:
        """Connects to all others; all must have announced their address before.

        Args:
            rank: This member.
            addresses: One per rank.
            limit_at: When to give up, in monotonic seconds.
            stop: Set by another thread to give up early.

        Raises:
            PeerWentAway: A member does not answer, or not in time.
        """
        sockets: dict[int, socket.socket] = {}
        try:
            for peer in range(rank):
                sockets[peer] = self._dial(peer, addresses[peer], rank, limit_at)
            self._answer_all(sockets, rank, len(addresses), limit_at, stop)
        except BaseException:
            for sock in sockets.values():
                sock.close()
            raise
        return Lifeline(sockets)

    def close(self) -> None:
        """Stops listening; members that have not connected yet see that this one went away."""
        self._listener.close()

    def _dial(self, peer: int, address: str, rank: int, limit_at: float) -> socket.socket:
        host, _, port = address.rpartition(":")
        limit_s = max(STEP_S, limit_at - time.monotonic())
        with contextlib.ExitStack() as on_failure:
            try:
                sock = on_failure.enter_context(socket.create_connection((host, int(port)), timeout=limit_s))
                sock.sendall(_HELLO.pack(self._tag, rank))
            except OSError as error:
                raise PeerWentAway(f"rank {peer} does not answer at {address} ({error})") from error
            on_failure.pop_all()
        return sock

    def _answer_all(
        self,
        sockets: dict[int, socket.socket],
        rank: int,
        world_size: int,
        limit_at: float,
        stop: threading.Event,
    ) -> None:
        self._listener.settimeout(STEP_S)
        while len(sockets) < world_size - 1:
            if stop.is_set() or time.monotonic() > limit_at:
                absent = [peer for peer in range(rank + 1, world_size) if peer not in sockets]
                raise PeerWentAway(f"ranks {absent} do not answer")
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                continue
            peer = self._hello(sock)
            if peer is not None and rank < peer < world_size and peer not in sockets:
                sockets[peer] = sock
            else:
                sock.close()

    def _hello(self, sock: socket.socket) -> int | None:
        sock.settimeout(1.0)
        try:
            data = sock.recv(_HELLO.size, socket.MSG_WAITALL)
        except OSError:
            return None
        if len(data) != _HELLO.size:
            return None
        tag, peer = _HELLO.unpack(data)
        return int(peer) if tag == self._tag else None
