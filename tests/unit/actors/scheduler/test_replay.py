"""What a live scheduler was told, told to a pure controller: the same commands."""

from __future__ import annotations

import pytest

from raytide.core import Controller
from raytide.core.events import BoundsChanged, CancelRequested, NodeDraining, NodeJoined, NodeLost, NodeTaken
from raytide.policies.fifo import Fifo
from raytide.policies.placement import Pack
from raytide.policies.tide import Tide
from support.engine import Desk
from support.scheduling import job, nodes


@pytest.mark.parametrize("policy", [Fifo, Tide])
def test_the_log_of_a_scheduler_and_of_the_one_after_it(tmp_path, policy):
    desk = Desk(tmp_path, policy(), nodes(2, 2))
    desk.submit(job("a", 1, to=4), job("b", 2), job("big", 9))
    desk.until_state("running", "a")
    desk.engine.tell(BoundsChanged("a", 1, 2, preemptible=True), NodeTaken("n0", 1))
    desk.until_state("running", "a")
    again = Desk(tmp_path, policy(), [*nodes(2, 2), nodes(1, 1, 2)[2]], desk.masters)
    again.engine.tell(NodeDraining("n0"), CancelRequested("b"))
    again.round()
    again.engine.tell(NodeLost("n0"), NodeJoined(nodes(2)[0]))
    again.until_state("running", "a")
    for incarnation in (1, 2):
        pure = Controller(policy(), Pack())
        rounds = list(again.store.rounds(incarnation))
        assert sum(len(told.commands) for told in rounds) >= 1
        for told in rounds:
            assert pure.tick(told.now_s, told.events) == list(told.commands)
        pure.validate()
