"""A straggler is slower than the others for long, not once."""

from __future__ import annotations

from raytide.elastic.messages import Heartbeat
from raytide.elastic.model import Position
from raytide.elastic.straggler import StragglerDetector, StragglerRule

MEMBERS = ("r0", "r1", "r2")


def beat(busy_s: float, steps: int = 50) -> Heartbeat:
    return Heartbeat(1, Position(), "step", busy_s=busy_s, steps_measured=steps)


def feed(detector: StragglerDetector, now: float, busy: dict[str, float], steps: int = 50) -> list[tuple[str, float]]:
    found = []
    for replica, busy_s in busy.items():
        found += detector.feed(now, replica, beat(busy_s, steps), MEMBERS)
    return found


def test_persistently_slow_is_reported_once() -> None:
    detector = StragglerDetector(StragglerRule(ratio=1.5, persist_s=5.0))
    slow = {"r0": 1.0, "r1": 1.0, "r2": 2.0}
    reports = [feed(detector, now, slow) for now in (0.0, 2.0, 4.0, 6.0, 8.0)]
    assert [r for report in reports for r in report] == [("r2", 2.0)]


def test_a_break_starts_the_clock_anew() -> None:
    detector = StragglerDetector(StragglerRule(ratio=1.5, persist_s=5.0))
    slow, even = {"r0": 1.0, "r1": 1.0, "r2": 2.0}, {"r0": 1.0, "r1": 1.0, "r2": 1.1}
    for now, busy in ((0.0, slow), (4.0, even), (5.0, slow), (9.0, slow)):
        assert feed(detector, now, busy) == []
    assert feed(detector, 10.5, slow) == [("r2", 2.0)]


def test_too_few_steps_say_nothing() -> None:
    detector = StragglerDetector()
    assert feed(detector, 0.0, {"r0": 1.0, "r1": 9.0}, steps=3) == []
    assert feed(detector, 99.0, {"r0": 1.0, "r1": 9.0}, steps=3) == []


def test_alone_nobody_is_slow() -> None:
    detector = StragglerDetector()
    assert detector.feed(0.0, "r0", beat(9.0), ("r0",)) == []
    assert detector.feed(99.0, "r0", beat(9.0), ("r0",)) == []


def test_one_who_left_does_not_count() -> None:
    detector = StragglerDetector(StragglerRule(persist_s=0.0))
    feed(detector, 0.0, {"r0": 1.0, "r1": 1.0})
    assert detector.feed(1.0, "r2", beat(9.0), ("r2",)) == []
