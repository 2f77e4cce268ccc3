"""The goodput model: what it learns from few measurements, and that it follows what was seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raytide.core import BatchLimits, Goodput, GradientNoise, StepSample, Training, goodput_of
from raytide.errors import ConfigError

LIMITS = BatchLimits(smallest_batch=64, largest_batch=4096, min_local=16, max_local=512)
NOISY = GradientNoise(sqr=1.0, var=20.0)


def step(gpus: int, nodes: int, atomic: int) -> StepSample:
    """A job whose compute is 20 ms and 1 ms a sample, its network 40 ms of a ring inside a node and 200 ms across."""
    compute_s = 0.020 + 0.001 * atomic
    network_s = (0.2 if nodes > 1 else 0.04) * (gpus - 1) / gpus
    step_s = math.hypot(compute_s, network_s)
    return StepSample(gpus, nodes, atomic, step_s, step_s - compute_s)


MEASURED = [step(1, 1, 16), step(1, 1, 64), step(4, 1, 32), step(8, 2, 32)]


@pytest.mark.parametrize(("gpus", "nodes"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4), (64, 16)])
def test_what_follows_the_model_is_found_again(gpus: int, nodes: int) -> None:
    model = Goodput(LIMITS, MEASURED, None)
    split = model.split(gpus, nodes)
    truth = step(gpus, nodes, split.atomic)
    assert 1.0 / model.at(gpus, nodes) == pytest.approx(truth.step_s, rel=0.05)


def test_without_noise_a_larger_batch_is_worth_nothing() -> None:
    assert Goodput(LIMITS, MEASURED, None).split(1, 1).batch == LIMITS.smallest_batch


def test_noise_makes_larger_batches_worth_while() -> None:
    quiet, noisy = (Goodput(LIMITS, MEASURED, GradientNoise(1.0, var)).split(8, 2).batch for var in (1.0, 100.0))
    assert LIMITS.smallest_batch < quiet < noisy <= LIMITS.largest_batch


def test_measured_sizes_outweigh_the_model() -> None:
    slow = StepSample(8, 2, 32, 3.0, 2.9)
    usual, seen = (Goodput(LIMITS, [*MEASURED[:3], s], NOISY).at(8, 2) for s in (MEASURED[3], slow))
    assert seen < usual / 5


def test_nothing_measured_is_no_error() -> None:
    model = Goodput(LIMITS, [], None)
    assert model.at(1, 1) > 0
    assert model.split(4, 1).replicas == 4


@given(st.integers(1, 64), st.floats(0.0, 1e4), st.floats(1e-6, 1e4))
def test_gain_is_between_one_and_the_scale(scale: int, var: float, sqr: float) -> None:
    gain = GradientNoise(sqr, var).gain(float(scale))
    assert 1.0 - 1e-9 <= gain <= scale * (1 + 1e-9)


def test_gain_of_arrays_is_that_of_numbers() -> None:
    scales = np.array([1.0, 2.0, 16.0])
    assert NOISY.gain(scales).tolist() == pytest.approx([NOISY.gain(scale) for scale in scales.tolist()])


def test_reports_keep_the_latest_of_each_configuration() -> None:
    first, again = step(4, 1, 32), StepSample(4, 1, 32, 9.0, 1.0)
    training = Training().with_sample(first).with_sample(step(8, 2, 32)).with_sample(again)
    assert training.samples == (step(8, 2, 32), again)
    assert training.with_sample(again) is training
    assert training.most_gpus == 8


def test_a_model_is_fitted_once() -> None:
    assert goodput_of(LIMITS, tuple(MEASURED), NOISY) is goodput_of(LIMITS, tuple(MEASURED), NOISY)


@pytest.mark.parametrize(
    "fields",
    [(0, 1, 16, 1.0, 0.1), (2, 3, 16, 1.0, 0.1), (1, 1, 0, 1.0, 0.1), (1, 1, 16, 1.0, 1.0), (1, 1, 16, 1.0, -0.1)],
)
def test_nonsense_is_refused(fields: tuple[int, int, int, float, float]) -> None:
    with pytest.raises(ConfigError, match="is no measurement"):
        StepSample(*fields)
