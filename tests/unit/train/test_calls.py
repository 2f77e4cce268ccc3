"""Which guarded calls a received state contains already."""

from __future__ import annotations

from raytide.train.calls import GuardedCalls


def test_nothing_is_contained_before_anything_was_received() -> None:
    calls = GuardedCalls()
    assert not calls.contains("a.step", calls.count("a.step"))
    calls.begin_step(3)
    assert not calls.contains("a.step", calls.count("a.step"))


def test_the_same_step_contains_what_its_sender_had_called() -> None:
    ahead, behind = GuardedCalls(), GuardedCalls()
    for calls in (ahead, behind):
        calls.begin_step(3)
    ahead.count("a.step")
    ahead.count("b.update")
    ahead.count("b.update")
    behind.count("b.update")
    behind.received(ahead.counts())
    assert behind.contains("a.step", behind.count("a.step"))
    assert behind.contains("b.update", behind.count("b.update"))
    assert not behind.contains("b.update", behind.count("b.update"))
    assert not behind.contains("a.step", behind.count("a.step"))


def test_a_later_step_contains_all_calls_up_to_it() -> None:
    ahead, behind = GuardedCalls(), GuardedCalls()
    ahead.begin_step(4)
    behind.begin_step(3)
    behind.received(ahead.counts())
    assert behind.contains("a.step", behind.count("a.step"))
    behind.begin_step(4)
    assert not behind.contains("a.step", behind.count("a.step"))


def test_one_that_has_begun_no_step_stands_at_a_boundary() -> None:
    ahead, fresh = GuardedCalls(), GuardedCalls()
    ahead.begin_step(4)
    ahead.count("a.step")
    fresh.received(ahead.counts())
    assert not fresh.contains("a.step", fresh.count("a.step"))
