from __future__ import annotations

import pytest
import torch

from plain_training import PlainTraining
from raytide.jobs import digits

QUICK = {**digits.CONFIG, "epochs": 4, "width": 16, "checkpoint_every_epochs": 3}


def test_the_loop_learns(monkeypatch: pytest.MonkeyPatch):
    plain = PlainTraining(digits, monkeypatch)
    digits.loop(QUICK)
    assert [set(metrics) for metrics in plain.reports] == [{"loss", "accuracy"}] * 4
    assert plain.reports[-1]["accuracy"] > 0.97
    assert plain.reports[-1]["loss"] < plain.reports[0]["loss"]


def test_checkpoints_come_at_their_interval_and_at_the_end(monkeypatch: pytest.MonkeyPatch):
    plain = PlainTraining(digits, monkeypatch)
    digits.loop(QUICK)
    assert plain.checkpoints == [2, 3]


def test_model_optimizer_and_scheduler_are_registered(monkeypatch: pytest.MonkeyPatch):
    plain = PlainTraining(digits, monkeypatch)
    digits.loop({**QUICK, "epochs": 1})
    assert all(hasattr(item, "state_dict") for item in plain.prepared)
    assert len(plain.prepared) == 3


def test_a_rehearsal_passes_and_changes_no_parameter(monkeypatch: pytest.MonkeyPatch):
    plain = PlainTraining(digits, monkeypatch, rehearsal=True)
    digits.loop(QUICK)
    torch.manual_seed(QUICK["seed"])
    fresh = digits.DigitsNet(QUICK["width"]).parameters()
    assert all(torch.equal(a, b) for a, b in zip(plain.prepared[0].parameters(), fresh, strict=True))


def test_the_split_is_fixed_and_standardised():
    (train, test), (again, _) = digits.datasets(), digits.datasets()
    assert (len(train), len(test)) == (1437, 360)
    assert torch.equal(train.tensors[1], again.tensors[1])
    assert abs(train.tensors[0].mean()) < 1e-5
    assert abs(train.tensors[0].std() - 1) < 1e-4


@pytest.mark.parametrize(("epoch", "factor"), [(0, 1 / 3), (1, 2 / 3), (2, 1.0), (6, 0.505), (10, 0.01), (99, 0.01)])
def test_the_learning_rate_rises_and_falls(epoch: int, factor: float):
    assert digits.lr_factor(epoch, warmup=2, total=10) == pytest.approx(factor)
