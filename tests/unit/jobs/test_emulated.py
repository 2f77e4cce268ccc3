from __future__ import annotations

import pytest
import torch

from plain_training import PlainTraining
from raytide.errors import ConfigError
from raytide.jobs import emulated
from raytide.jobs.throughput import RESNET50_ON_T4, BatchTable, ScalingTable, make_table

SMALL = {
    **emulated.CONFIG,
    "epochs": 3,
    "samples": 160,
    "global_batch_size": 8,
    "parameters": 1000,
    "time_scale": 1.0,
}
SMALL |= {"rates": {8: 80.0}}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of the job, in seconds, none of which is waited for."""
    waited: list[float] = []
    monkeypatch.setattr(emulated.time, "sleep", waited.append)
    return waited


def test_each_step_waits_as_long_as_the_table_says(monkeypatch: pytest.MonkeyPatch, waits: list[float]):
    plain = PlainTraining(emulated, monkeypatch)
    emulated.loop(SMALL)
    assert plain.steps == 60
    assert sum(waits) == pytest.approx(60 * 0.1)


def test_the_backward_pass_waits_before_every_gradient(monkeypatch: pytest.MonkeyPatch, waits: list[float]):
    model = emulated.WaitingModel(parameters=40, layers=4, compute_s=lambda batch: 0.3 * batch)
    model(torch.zeros(1, 5, dtype=torch.uint8)).sum().backward()
    assert waits == pytest.approx([0.1, 0.05, 0.05, 0.05, 0.05])
    assert all(layer.grad is not None and layer.grad.shape == (10,) for layer in model.layers)


def test_time_can_be_scaled(monkeypatch: pytest.MonkeyPatch, waits: list[float]):
    PlainTraining(emulated, monkeypatch)
    emulated.loop({**SMALL, "epochs": 1, "time_scale": 0.5})
    assert sum(waits) == pytest.approx(20 * 0.05)


def test_its_output_says_that_it_is_emulated(monkeypatch, waits, capsys: pytest.CaptureFixture[str]):
    plain = PlainTraining(emulated, monkeypatch)
    emulated.loop({**SMALL, "epochs": 1})
    assert "EMULATED" in capsys.readouterr().out
    assert plain.reports[0]["emulated"] == 1.0


def test_the_loss_falls_to_the_noise(monkeypatch: pytest.MonkeyPatch, waits: list[float]):
    plain = PlainTraining(emulated, monkeypatch)
    emulated.loop(SMALL)
    assert plain.reports[-1]["loss"] < 0.05


def test_a_rehearsal_passes(monkeypatch: pytest.MonkeyPatch, waits: list[float]):
    plain = PlainTraining(emulated, monkeypatch, rehearsal=True)
    emulated.loop(SMALL)
    assert plain.steps == 1


def test_samples_are_a_function_of_their_index():
    first, second = (emulated.NoiseBytes(10, 32, seed=1) for _ in range(2))
    assert torch.equal(first[7][0], second[7][0])
    assert not torch.equal(first[7][0], first[8][0])
    with pytest.raises(IndexError):
        first[10]


@pytest.mark.parametrize(("batch", "seconds"), [(5, 0.05), (10, 0.1), (15, 0.15), (20, 0.2), (25, 0.225), (60, 0.5)])
def test_a_batch_table_interpolates_step_times(batch: int, seconds: float):
    table = BatchTable({20: 100.0, 10: 100.0, 30: 120.0})
    assert table.compute_s(batch, world_size=3) == pytest.approx(seconds)


@pytest.mark.parametrize(("world_size", "rate"), [(1, 100.0), (2, 190.0), (3, 3 * 91.25), (4, 350.0), (8, 700.0)])
def test_a_scaling_table_gives_the_jobs_rate(world_size: int, rate: float):
    table = ScalingTable({1: 100, 2: 190, 4: 350})
    assert 240 / table.compute_s(240 // world_size, world_size) == pytest.approx(rate)


def test_the_default_table_scales_sublinearly():
    table = BatchTable(RESNET50_ON_T4)
    times = [table.compute_s(80 // replicas, replicas) for replicas in (1, 2, 4)]
    assert times == sorted(times, reverse=True)
    assert times[0] / times[2] < 4


@pytest.mark.parametrize("rates", [{}, {0: 1.0}, {1: 0.0}, {1: -5.0}])
def test_a_senseless_table_is_refused(rates: dict[int, float]):
    with pytest.raises(ConfigError, match="rates"):
        make_table("replicas", rates)


def test_an_unknown_kind_of_table_is_refused():
    with pytest.raises(ConfigError, match="local_batch, replicas"):
        make_table("gpus", {1: 1.0})
