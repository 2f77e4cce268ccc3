"""How a member left is told by its connection alone."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from raytide.collective.errors import CollectiveAborted, CollectiveError, PeerLost
from raytide.collective.fate import Fate
from raytide.collective.lifeline import Farewell, Lifeline

Pair = tuple[Lifeline, Lifeline, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Lifelines of rank 0 and rank 1, and rank 1's own end."""
    here, there = socket.socketpair()
    yield Lifeline({1: here}), Lifeline({0: there}), there
    here.close()
    there.close()


def test_nothing_is_seen_while_all_live(pair: Pair) -> None:
    mine, _other, _ = pair
    assert mine.look() is None


def test_an_end_without_a_goodbye_is_a_loss(pair: Pair) -> None:
    mine, _other, there = pair
    there.close()
    farewell = mine.look()
    assert farewell is not None
    assert (farewell.rank, farewell.kind) == (1, "")
    assert mine.look() is None


def test_an_orderly_end_is_no_failure(pair: Pair) -> None:
    mine, other, _ = pair
    other.leave("closed", "")
    assert mine.look() is None


def test_a_goodbye_carries_kind_and_reason(pair: Pair) -> None:
    mine, other, _ = pair
    other.leave("CollectiveAborted", "told to")
    assert mine.look() == Farewell(1, "CollectiveAborted", "told to")


def test_a_very_long_reason_arrives_cut_but_whole(pair: Pair) -> None:
    mine, other, _ = pair
    other.leave("CollectiveAborted", "é" * 10_000)
    farewell = mine.look()
    assert farewell is not None
    assert farewell.detail == "é" * len(farewell.detail)


def test_leaving_twice_or_to_nobody_is_fine(pair: Pair) -> None:
    mine, other, there = pair
    there.close()
    mine.leave("closed", "")
    mine.leave("closed", "")
    assert other is not None


def test_a_loss_becomes_the_failure_of_the_group(pair: Pair) -> None:
    mine, _other, there = pair
    fate = Fate(mine)
    fate.look()
    assert fate.failure is None
    there.close()
    fate.look()
    kind, detail = fate.fail(CollectiveAborted, "too late")
    assert kind is PeerLost
    assert detail.startswith("rank 1 is gone")


def test_the_first_failure_counts_and_runs_the_callbacks_once() -> None:
    calls: list[str] = []
    fate = Fate()
    fate.on_failure(lambda: calls.append("end"))
    assert fate.fail(CollectiveAborted, "first") == (CollectiveAborted, "first")
    assert fate.fail(PeerLost, "second") == (CollectiveAborted, "first")
    assert calls == ["end"]


def test_a_peers_reason_explains_a_closed_connection(pair: Pair) -> None:
    mine, other, _ = pair
    other.leave("CollectiveAborted", "told to")
    explained = Fate(mine).explain(PeerLost, "Connection closed by peer")
    assert explained == (CollectiveAborted, "rank 1 gave up: told to")


def test_a_reason_that_names_a_rank_is_passed_on_unchanged(pair: Pair) -> None:
    mine, other, _ = pair
    other.leave("PeerLost", "rank 2 is gone: its connection closed without a goodbye")
    kind, detail = Fate(mine).explain(PeerLost, "Connection closed by peer")
    assert (kind, detail) == (PeerLost, "rank 2 is gone: its connection closed without a goodbye")


def test_an_unknown_kind_is_still_a_failure(pair: Pair) -> None:
    mine, other, _ = pair
    other.leave("SomethingNewer", "from a later version")
    assert Fate(mine).explain(PeerLost, "")[0] is CollectiveError
