"""The journal says exactly what the state was."""

from __future__ import annotations

import pydantic
import pytest

from elastic_sim.desk import Desk, slot
from raytide.elastic.journal import dumps, loads
from raytide.elastic.messages import Ready, Resize, Suspend

SCENES = {
    "starting": lambda: Desk(),
    "forming, with publications to send": lambda: Desk().everybody(Ready(), "r0", "r1"),
    "switching": lambda: Desk().running().event(Resize("grow", add=(slot(5),))).says("r2", Ready()),
    "fencing, with an answer": lambda: Desk(replicas=3).running().dies("r0").says("r1", Ready()),
    "halting": lambda: Desk().running().event(Suspend("pause")),
    "ended": lambda: Desk().running().finished(),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_round_trip(scene):
    state = scene().master.state
    again = loads(dumps(state))
    assert (again.replicas, again.active, again.pending) == (state.replicas, state.active, state.pending)
    assert (again.fencing, again.requests, again.phase) == (state.fencing, state.requests, state.phase)
    assert [type(e) for e in again.outbox] == [type(e) for e in state.outbox]
    assert dumps(again) == dumps(state)


def test_what_is_no_journal_is_refused():
    with pytest.raises(pydantic.ValidationError):
        loads('{"job": "x"}')
