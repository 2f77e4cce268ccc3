"""What all members conclude from one reduced vector."""

from __future__ import annotations

from raytide.elastic.ballot import WIDTH, Ballot, Outcome, fingerprint

BASE = Ballot(connected_to=3, depth=1, halt=True, stop=False, place=fingerprint("step", 4))


def outcome(*ballots: Ballot) -> Outcome:
    return Outcome.decode([max(column) for column in zip(*(b.encode() for b in ballots), strict=True)])


def vote(**changes: object) -> Ballot:
    return Ballot(**{**vars(BASE), **changes})


def test_unanimous():
    assert len(BASE.encode()) == WIDTH
    assert outcome(BASE, BASE) == Outcome(connected_to=3, depth=1, halt=True, stop=False, together=True)


def test_one_not_connected_is_enough_to_wait():
    assert outcome(BASE, vote(connected_to=0)).connected_to == 0


def test_halting_takes_all_and_stopping_one():
    assert not outcome(BASE, vote(halt=False)).halt
    assert outcome(BASE, vote(stop=True)).stop


def test_the_deepest_loader_counts():
    assert outcome(BASE, vote(depth=4)).depth == 4


def test_different_places_are_seen():
    assert not outcome(BASE, vote(place=fingerprint("validation", 4))).together
