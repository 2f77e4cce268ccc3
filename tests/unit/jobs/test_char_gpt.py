from __future__ import annotations

import math

import pytest
import torch

from plain_training import PlainTraining
from raytide.jobs import char_gpt
from raytide.jobs.gpt import GPT, GPTConfig

TINY = {
    **char_gpt.CONFIG,
    "epochs": 2,
    "context": 16,
    "layers": 2,
    "heads": 2,
    "width": 32,
    "lr": 5e-3,
    "warmup_steps": 5,
    "max_characters": 12_000,
}


def test_the_loop_learns(monkeypatch: pytest.MonkeyPatch):
    plain = PlainTraining(char_gpt, monkeypatch)
    char_gpt.loop(TINY)
    first, last = plain.reports
    assert last["loss"] < first["loss"]
    assert last["perplexity"] == pytest.approx(math.exp(last["val_loss"]))
    assert last["perplexity"] < 25, "a uniform guess over the alphabet is at about 90"


def test_a_rehearsal_passes(monkeypatch: pytest.MonkeyPatch):
    plain = PlainTraining(char_gpt, monkeypatch, rehearsal=True)
    char_gpt.loop(TINY)
    assert plain.steps == 1
    assert math.isfinite(plain.reports[0]["perplexity"])


def test_training_and_validation_text_do_not_overlap():
    train, validation, vocabulary = char_gpt.datasets(context=48)
    text, size = char_gpt.encode(char_gpt.read_text())
    assert size == vocabulary
    assert len(train.ids) + len(validation.ids) == len(text)
    assert torch.equal(torch.cat([train.ids, validation.ids]), text)


def test_windows_are_disjoint_and_shifted_by_one():
    windows = char_gpt.Windows(torch.arange(10), context=3)
    assert [(ids.tolist(), targets.tolist()) for ids, targets in (windows[i] for i in range(len(windows)))] == [
        ([0, 1, 2], [1, 2, 3]),
        ([3, 4, 5], [4, 5, 6]),
        ([6, 7, 8], [7, 8, 9]),
    ]
    with pytest.raises(IndexError):
        windows[3]


def test_a_text_shorter_than_a_window_has_no_samples():
    assert len(char_gpt.Windows(torch.arange(3), context=3)) == 0
    assert len(char_gpt.Windows(torch.arange(0), context=3)) == 0


def test_the_gpt_never_looks_ahead():
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocabulary=11, context=8, layers=2, heads=2, width=16)).eval()
    ids = torch.randint(11, (2, 8))
    changed = ids.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 11
    torch.testing.assert_close(model(ids)[:, :5], model(changed)[:, :5])
    assert not torch.allclose(model(ids)[:, 5:], model(changed)[:, 5:])


def test_the_default_gpt_has_about_a_million_parameters():
    shape = {key: char_gpt.CONFIG[key] for key in ("context", "layers", "heads", "width")}
    count = sum(parameter.numel() for parameter in GPT(GPTConfig(vocabulary=103, **shape)).parameters())
    assert 1e6 < count < 2e6


def test_an_uneven_width_is_refused():
    with pytest.raises(ValueError, match="multiple of heads"):
        GPTConfig(vocabulary=5, heads=3, width=16)


def test_the_perplexity_of_a_diverged_model_is_infinite():
    assert char_gpt.perplexity(1e4) == math.inf


@pytest.mark.parametrize(("step", "factor"), [(0, 1 / 3), (2, 1.0), (6, 0.55), (10, 0.1), (99, 0.1)])
def test_the_learning_rate_rises_and_falls(step: int, factor: float):
    assert char_gpt.lr_factor(step, warmup=2, total=10) == pytest.approx(factor)
