"""What an application knows from its validation runs."""

from __future__ import annotations

import pytest

from raytide.errors import ConfigError
from raytide.sim.pollux import Application, Limits


def test_an_epoch_ends_where_the_slowest_run_ended_it(app: Application) -> None:
    assert app.boundaries == (0.0, 90.0, 300.0)


@pytest.mark.parametrize(
    ("batch", "epoch", "gain"),
    [
        (8, 0, 1.0),
        (8, 1, 1.0),
        (32, 0, 4 / (3 / 4 + 1)),
        (32, 1, 4 / (3 / 4 + 1)),
        (20, 0, 4 / (3 / 2.5 + 1)),
        (20, 1, 4 / (2 / 2.5 + 2)),  # between q, v of 3, 1 and of 1, 3
    ],
)
def test_gain(app: Application, batch: int, epoch: int, gain: float) -> None:
    assert app.gain(batch, epoch) == pytest.approx(gain)
    assert app.gain(batch, epoch) == app.gain(batch, epoch)


@pytest.mark.parametrize(
    ("batch", "epoch", "iterations"), [(8, 0, 200.0), (32, 0, 80.0), (20, 0, 140.0), (8, 1, 1.0), (8, 2, 1.0)]
)
def test_remaining_iterations(app: Application, batch: int, epoch: int, iterations: float) -> None:
    assert app.remaining_iterations(batch, epoch) == pytest.approx(iterations)


@pytest.mark.parametrize("batch", [7, 33])
def test_batches_outside_the_limits_are_refused(app: Application, batch: int) -> None:
    with pytest.raises(ConfigError, match=f"{batch} is outside 8 to 32"):
        app.gain(batch, 0)
    with pytest.raises(ConfigError, match=f"{batch} is outside 8 to 32"):
        app.remaining_iterations(batch, 0)


@pytest.mark.parametrize("epoch", [-1, 2])
def test_epochs_that_do_not_exist_are_refused(app: Application, epoch: int) -> None:
    with pytest.raises(ConfigError, match=f"tiny has no epoch {epoch}"):
        app.gain(8, epoch)


def test_applications_are_equal_only_to_themselves(app: Application) -> None:
    assert len({app, app}) == 1


@pytest.mark.parametrize(
    "values", [(0, 1, 1, 1, 1), (2, 1, 1, 1, 1), (1, 2, 2, 1, 1), (1, 2, 0, 1, 1), (1, 2, 1, 1, 0)]
)
def test_limits_are_ordered(values: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(ConfigError, match="Limits"):
        Limits(*values)
