"""A restarted master reads what the one before wrote, of the same run only."""

from __future__ import annotations

from pathlib import Path

from raytide.actors.gang.journal import GangJournal
from raytide.actors.gang.state import GangState, Harm, Member, Phase
from raytide.actors.views import Event
from raytide.elastic.model import Slot

STATE = GangState(
    "j",
    Phase.SUSPENDING,
    (Slot("a", 0), Slot("b", 0)),
    attempt=3,
    members={0: Member(7), 1: Member(8, left=True, code=-9, told=True, tail="tail")},
    harms=(Harm("text", "node"),),
    goal=Phase.SUSPENDED,
    user_errors=1,
    lost_nodes=2,
    waiting={"p1": Phase.SUSPENDED},
    answered={"s1": ""},
)


def test_everything_comes_back(tmp_path: Path) -> None:
    events = [Event(number, 1.0, "start", "text", {"a": 1}) for number in range(300)]
    GangJournal(str(tmp_path), "r").save(STATE, events)
    assert GangJournal(str(tmp_path), "r").load() == (STATE, events[-200:])


def test_of_another_run_nothing_comes_back(tmp_path: Path) -> None:
    assert GangJournal(str(tmp_path), "r").load() is None
    GangJournal(str(tmp_path), "r").save(STATE, [])
    assert GangJournal(str(tmp_path), "other").load() is None
