"""Connections between members refuse strangers and end when somebody is missing."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from raytide.collective.lifeline import Lifeline
from raytide.collective.mesh import Doorbell, PeerWentAway

LIMIT_AT = time.monotonic() + 3600.0


def test_every_member_is_connected_to_every_other() -> None:
    bells = [Doorbell("127.0.0.1", "job/1", 3) for _ in range(3)]
    addresses = [bell.address for bell in bells]
    lines: dict[int, Lifeline] = {}

    def run(rank: int) -> None:
        lines[rank] = bells[rank].connect(rank, addresses, LIMIT_AT, threading.Event())

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines[1].leave("CollectiveAborted", "test")
    for rank in (0, 2):
        farewell = lines[rank].look(5.0)
        assert farewell is not None
        assert farewell.rank == 1
        lines[rank].leave("closed", "")
    for bell in bells:
        bell.close()


def test_a_member_that_went_away_is_named() -> None:
    gone = Doorbell("127.0.0.1", "job/1", 2)
    bell = Doorbell("127.0.0.1", "job/1", 2)
    gone.close()
    with pytest.raises(PeerWentAway, match="rank 0 does not answer"):
        bell.connect(1, [gone.address, bell.address], LIMIT_AT, threading.Event())
    bell.close()


def test_a_stranger_is_turned_away() -> None:
    bell = Doorbell("127.0.0.1", "job/1", 2)
    host, _, port = bell.address.rpartition(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n....")
        stop = threading.Event()
        threading.Timer(0.1, stop.set).start()
        with pytest.raises(PeerWentAway, match=r"ranks \[1\] do not answer"):
            bell.connect(0, [bell.address, ""], LIMIT_AT, stop)
    bell.close()


def test_a_connection_that_breaks_at_once_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that went away between its answer and our hello leaves no socket behind."""

    class Broken(socket.socket):
        def sendall(self, *_: object) -> None:
            raise ConnectionResetError("gone")

    made = Broken()
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: made)
    doorbell = Doorbell("127.0.0.1", "g", 2)
    try:
        with pytest.raises(PeerWentAway, match="rank 0 does not answer"):
            doorbell.connect(1, ["127.0.0.1:1", doorbell.address], time.monotonic() + 5.0, threading.Event())
    finally:
        doorbell.close()
    assert made.fileno() == -1
