"""The life of a rigid job as tables: what happens, and what has to be done then."""

from __future__ import annotations

from typing import Any

import pytest

from raytide.actors.gang.machine import KILL_AFTER_S, MOST_ANSWERED, START_S, Gang
from raytide.actors.gang.settings import RigidSettings
from raytide.actors.gang.state import (
    Answer,
    Effect,
    End,
    Event,
    Exited,
    GangState,
    Granted,
    Kill,
    Launch,
    Lost,
    Note,
    Phase,
    Release,
    Released,
    Restarted,
    Tick,
    Up,
    Wanted,
    Watch,
)
from raytide.elastic.model import Slot

SLOTS = (Slot("a", 0), Slot("b", 0))
GRACE_S = 30.0
START = Granted("s1", SLOTS)
UP = (Up(1, 0, 10), Up(1, 1, 11))
SUSPEND, STOP = Wanted("p1", Phase.SUSPENDED), Wanted("q1", Phase.STOPPED)


def left(rank: int, code: int = 0, *, attempt: int = 1, told: bool = False, tail: str = "") -> Exited:
    return Exited(attempt, rank, code, told, tail)


class Story:
    """A job and what was done for it."""

    def __init__(self, **settings: Any) -> None:
        defaults = {"run_id": "r", "entrypoint": "e", "gpus": 2, "launch": "gang", "storage": "s", "resources": {}}
        self.gang = Gang(GangState("j"), RigidSettings(**{**defaults, "grace_s": GRACE_S, **settings}))
        self.now = 0.0

    def after(self, *events: Event) -> list[Effect]:
        """Take events; what the last one had done, without notes."""
        effects: list[Effect] = []
        for event in events:
            effects = [e for e in self.gang.handle(self.now, event) if not isinstance(e, Note)]
        return effects

    @property
    def state(self) -> GangState:
        return self.gang.state


@pytest.mark.parametrize(
    ("events", "phase", "effects"),
    [
        ([], Phase.STARTING, []),
        ([START], Phase.STARTING, [Launch(1), Answer("s1")]),
        ([START, START], Phase.STARTING, [Answer("s1")]),
        ([START, UP[0]], Phase.STARTING, []),
        ([START, *UP], Phase.RUNNING, []),
        ([START, UP[0], left(1)], Phase.RUNNING, []),
        ([START, *UP, left(0)], Phase.RUNNING, []),
        ([START, *UP, left(0), left(1)], Phase.RUNNING, [Release()]),
        ([START, *UP, left(0), left(1), Released()], Phase.SUCCEEDED, []),
        ([START, *UP, left(1, 3)], Phase.ENDING, [End(1, 0)]),
        ([START, UP[1], left(1, 3)], Phase.ENDING, [Kill(1, 0)]),
        ([START, *UP, left(1, 3), left(0, -15, told=True)], Phase.ENDING, [Release()]),
        ([START, *UP, left(1, 3), left(0, -15, told=True), Released()], Phase.FAILED, []),
        ([START, *UP, left(1, 3, attempt=0)], Phase.RUNNING, []),
        ([START, *UP, Lost(1, 0, "gone"), left(1, -15, told=True)], Phase.STARTING, [Launch(2)]),
        ([START, *UP, SUSPEND], Phase.SUSPENDING, [End(1, 0), End(1, 1)]),
        ([START, *UP, SUSPEND, SUSPEND], Phase.SUSPENDING, []),
        ([START, UP[0], SUSPEND], Phase.SUSPENDING, [End(1, 0), Kill(1, 1)]),
        ([START, *UP, SUSPEND, left(0, told=True), left(1, -9, told=True)], Phase.SUSPENDING, [Release()]),
        ([START, *UP, SUSPEND, left(0), left(1), Released()], Phase.SUCCEEDED, [Answer("p1", "job j has succeeded")]),
        ([START, *UP, STOP], Phase.STOPPING, [End(1, 0), End(1, 1)]),
        ([START, *UP, SUSPEND, STOP], Phase.STOPPING, []),
        ([STOP], Phase.STOPPED, [Answer("q1")]),
        ([SUSPEND], Phase.SUSPENDED, [Answer("p1")]),
        ([STOP, START], Phase.STOPPED, [Release(), Answer("s1", "job j has stopped")]),
        ([STOP, SUSPEND], Phase.STOPPED, [Answer("p1", "job j has stopped")]),
        ([Released()], Phase.STARTING, []),
    ],
)
def test_what_happens_then(events: list[Event], phase: Phase, effects: list[Effect]) -> None:
    story = Story()
    assert story.after(*events) == effects
    assert story.state.phase is phase


def test_the_first_error_is_told_with_its_output() -> None:
    story = Story()
    story.after(START, *UP, left(1, 1, tail="ZeroDivisionError"), left(0, 1, tail="peer closed"), Released())
    assert (story.state.error, story.state.fault) == ("rank 1 exited with code 1: ZeroDivisionError", "user")


@pytest.mark.parametrize("code", [-9, 137])
def test_a_killed_process_is_the_cause_although_its_peer_was_heard_first(code: int) -> None:
    story = Story(lost_nodes=0)
    story.after(START, *UP, left(1, 1, tail="peer closed"), left(0, code), Released())
    assert (story.state.error, story.state.fault) == (f"rank 0 exited with code {code}", "node")
    story = Story(lost_nodes=0)
    story.after(START, *UP, left(1, 1, tail="peer closed"), Lost(1, 0, "its node died"), Released())
    assert (story.state.error, story.state.fault) == ("rank 0 was lost: its node died", "node")


def test_what_was_killed_on_purpose_is_no_loss() -> None:
    story = Story(lost_nodes=0)
    story.after(START, UP[1], left(1, 3), Lost(1, 0, "killed"), Released())
    assert story.state.fault == "user"


@pytest.mark.parametrize(("fault", "budget"), [("user", "user_errors"), ("node", "lost_nodes")])
def test_it_starts_again_while_the_budget_lasts(fault: str, budget: str) -> None:
    story = Story(**{"user_errors": 0, "lost_nodes": 0, budget: 2})
    story.after(START)
    for attempt in (1, 2, 3):
        assert story.state.attempt == attempt
        harm = left(0, 1, attempt=attempt) if fault == "user" else Lost(attempt, 0, "gone")
        effects = story.after(Up(attempt, 0, 1), Up(attempt, 1, 2), harm, left(1, -15, attempt=attempt, told=True))
        assert effects == ([Launch(attempt + 1)] if attempt < 3 else [Release()])
    story.after(Released())
    assert (story.state.phase, story.state.fault) == (Phase.FAILED, fault)


def test_a_suspended_job_goes_on_with_other_slots() -> None:
    story = Story()
    effects = story.after(START, *UP, SUSPEND, left(0, told=True), left(1, told=True), Released())
    assert effects == [Answer("p1")]
    assert (story.state.phase, story.state.slots) == (Phase.SUSPENDED, ())
    assert not story.state.wants(1)
    other = (Slot("c", 0), Slot("c", 1))
    assert story.after(Granted("s2", other)) == [Launch(2), Answer("s2")]
    assert (story.state.phase, story.state.slots) == (Phase.STARTING, other)
    assert story.after(SUSPEND) == [Answer("p1")]
    assert story.state.phase is Phase.STARTING


def test_a_suspension_during_a_failure_comes_after_its_verdict() -> None:
    story = Story(user_errors=1)
    story.after(START, *UP, left(0, 1), SUSPEND, left(1, told=True), Released())
    assert (story.state.phase, story.state.user_errors) == (Phase.SUSPENDED, 1)
    story = Story(user_errors=0)
    effects = story.after(START, *UP, left(0, 1), SUSPEND, left(1, told=True), Released())
    assert effects == [Answer("p1", "job j has failed")]


def test_a_stop_wins_over_a_suspension() -> None:
    for when in range(3):
        story = Story()
        events = [SUSPEND, left(0, told=True), left(1, told=True)]
        events.insert(when + 1, STOP)
        effects = story.after(START, *UP, *events, Released())
        assert effects == [Answer("p1", "job j has stopped"), Answer("q1")]
        assert story.state.phase is Phase.STOPPED


def test_a_start_has_a_limit() -> None:
    story = Story(lost_nodes=0)
    story.after(START, UP[0])
    story.now = START_S + 1
    assert story.after(Tick()) == [End(1, 0), Kill(1, 1)]
    story.after(left(0, told=True), Lost(1, 1, "killed"), Released())
    assert (story.state.error, story.state.fault) == ("rank 1 did not come up within 600 s", "node")


def test_an_end_has_a_limit() -> None:
    story = Story()
    story.after(START, *UP, SUSPEND, left(0, told=True))
    story.now = GRACE_S + KILL_AFTER_S
    assert story.after(Tick()) == []
    story.now += 1
    assert story.after(Tick()) == [Kill(1, 1)]
    assert story.after(Tick()) == []
    story.now += KILL_AFTER_S
    assert story.after(Tick()) == [Release()]


@pytest.mark.parametrize(
    ("events", "effects"),
    [
        ([], []),
        ([START, UP[0]], [Launch(1)]),
        ([START, *UP], [Watch(1, 0), Watch(1, 1)]),
        ([START, *UP, left(0)], [Watch(1, 1)]),
        ([START, *UP, SUSPEND, left(0, told=True)], [Watch(1, 1), End(1, 1)]),
        ([START, *UP, left(0), left(1)], [Release()]),
        ([START, *UP, left(0), left(1), Released()], []),
    ],
)
def test_a_new_master_takes_up_what_was_under_way(events: list[Event], effects: list[Effect]) -> None:
    assert Story().after(*events, Restarted()) == effects


def test_a_driver_is_one_process_on_all_its_slots() -> None:
    story = Story(launch="driver")
    assert story.after(START) == [Launch(1), Answer("s1")]
    assert list(story.state.members) == [0]
    assert story.after(Up(1, 0, 10), left(0)) == [Release()]


def test_old_answers_are_forgotten() -> None:
    story = Story()
    for number in range(2 * MOST_ANSWERED):
        story.after(Wanted(f"p{number}", Phase.SUSPENDED))
    assert list(story.state.answered) == [f"p{number}" for number in range(MOST_ANSWERED, 2 * MOST_ANSWERED)]
