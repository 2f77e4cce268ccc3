from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from raytide.actors.views import MemberView
from raytide.cli import demo_pace
from raytide.cli.demo import document, summary
from raytide.cli.demo_story import Told, choose_move, choose_victim
from raytide.cli.moments import moments
from raytide.cli.traces import EpochSamples
from unit.cli.building import view

NAMES = {"n1": "node-a", "n2": "node-b"}


def members(*nodes: str) -> tuple[MemberView, ...]:
    return tuple(MemberView(f"r{i}", i, node, i, "", 0.0, 100 + i) for i, node in enumerate(nodes))


@pytest.fixture
def told(log) -> Told:
    result = SimpleNamespace(metrics={"accuracy": 0.9917}, status="succeeded", path="/c")
    return Told(result, moments(log), [EpochSamples(0, 1437, True)], 1, Path("/out/timeline.png"), 92.4)


def test_a_replica_moves_from_the_fuller_node():
    assert choose_move(view(members=members("n1", "n1", "n2")), NAMES) == (1, "node-b")
    assert choose_move(view(members=members("n1", "n2", "n2")), NAMES) == (2, "node-a")


def test_the_victim_is_rank_2():
    assert choose_victim(view(members=members("n1", "n1", "n2", "n2"))) == 102


def test_the_summary_says_what_was_proved(told: Told, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    text = "\n".join(summary(told))
    for part in (
        "1,437 in each of 1 epochs, each sample exactly once",
        "99.17%",
        "/out/timeline.png",
        "stops rising at 2",
    ):
        assert part in text
    assert document(told)["each_sample_exactly_once"] is True


def test_a_missing_epoch_is_not_exact(told: Told):
    short = Told(told.result, told.story, told.epochs, 2, told.picture, told.total_s)
    assert not short.is_exact
    assert "NOT each sample" in "\n".join(summary(short))


def test_the_training_fits_the_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(demo_pace, "step_s", lambda: 0.03)
    assert 70 <= demo_pace.fitting_epochs() <= 90
    monkeypatch.setattr(demo_pace, "step_s", lambda: 10.0)
    assert demo_pace.fitting_epochs() == 40


def test_a_step_takes_time():
    assert demo_pace.step_s() > 0
