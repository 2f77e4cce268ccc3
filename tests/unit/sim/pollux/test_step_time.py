"""Step times: exact where measured, interpolated elsewhere, an error outside."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from raytide.errors import ConfigError
from raytide.sim.pollux import Application, NotMeasuredError, StepTimes, canonical


@pytest.mark.parametrize(
    ("placement", "shape"),
    [
        ((4,), (4,)),
        ((0, 2, 0, 0), (2,)),
        ((4, 1, 3), (1, 3, 4)),
        ((4, 3, 1), (1, 4, 3)),
        ((2, 0, 1, 2, 1), (1, 2, 1, 2)),
    ],
)
def test_canonical_drops_zeros_and_rotates(placement: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert canonical(placement) == shape


def test_the_order_of_nodes_counts_its_beginning_does_not() -> None:
    assert canonical((3, 2, 2, 1)) == canonical((2, 2, 1, 3)) != canonical((2, 2, 3, 1))


@pytest.mark.parametrize("placement", [(), (0, 0)])
def test_a_placement_has_a_gpu(placement: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="holds no GPU"):
        canonical(placement)


@pytest.mark.parametrize(
    ("placement", "local_batch", "times"),
    [
        ((1,), 4, (1.4, 0.0)),
        ((1,), 6, (1.6, 0.0)),
        ((0, 0, 1), 8, (1.8, 0.0)),
        ((2, 1), 5, (4.5, 2.0)),
        ((1, 2, 1), 8, (6.8, 3.0)),
    ],
)
def test_measured_placements_are_linear_in_the_batch(
    app: Application, placement: tuple[int, ...], local_batch: int, times: tuple[float, float]
) -> None:
    assert app.step_times.at(placement, local_batch) == pytest.approx(times)


def test_other_placements_are_interpolated(app: Application) -> None:
    assert app.step_times.at((1,) * 6, 4) == pytest.approx((6.4, 3.0)), "a corner of the triangulation"
    assert app.step_times.at((1,) * 11, 6) == pytest.approx((11.6, 5.5)), "halfway between 6 and 16 nodes"


def test_more_nodes_than_measured_are_as_fast_as_the_most(app: Application) -> None:
    points = np.array([(n, r, b, n + r, r) for n in (8, 16) for r in (16, 64) for b in (1, 9)], float)
    times = StepTimes({(1,): np.array([(1.0, 1.0, 0.0)])}, points)
    assert times.at((1,) * 40, 5) == pytest.approx((16 + 40, 40))


def test_placements_alike_in_nodes_and_replicas_are_averaged() -> None:
    measured = {(1, 3): np.array([(1.0, 10.0, 4.0)]), (2, 2): np.array([(1.0, 20.0, 8.0)])}
    corners = np.array([(2, 5, 1, 1, 1), (3, 4, 1, 1, 1), (2, 4, 9, 1, 1)], float)
    interpolated = StepTimes(measured, corners)._interpolated((9,), (2, 4, 1))
    assert interpolated == pytest.approx((15.0, 6.0))


@pytest.mark.parametrize(
    ("placement", "local_batch", "measured"),
    [
        ((1,), 9, "4 to 8 samples per GPU"),
        ((1,), 3, "4 to 8 samples per GPU"),
        ((40,), 8, "1 to 16 nodes, 1 to 16 GPUs, 4 to 8 samples per GPU, not in every combination"),
    ],
)
def test_outside_the_measurements_is_an_error(
    app: Application, placement: tuple[int, ...], local_batch: int, measured: str
) -> None:
    with pytest.raises(NotMeasuredError) as caught:
        app.step_times.at(placement, local_batch)
    assert str(caught.value) == (
        f"no step time for {local_batch} samples per GPU on placement {placement}; measured: {measured}"
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_flat_tables_cannot_be_interpolated() -> None:
    times = StepTimes({(1,): np.array([(1.0, 1.0, 0.0)])}, np.array([(6.0, 6.0, 1.0, 1.0, 0.0)]))
    with pytest.raises(NotMeasuredError, match="2 points, too few or too alike"):
        times.at((3,), 1)


def test_values_are_computed_once(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    first = app.step_times.at((2, 1), 5), app.step_times.at((1,) * 11, 6)
    monkeypatch.setattr(StepTimes, "_on_curve", None)
    monkeypatch.setattr(StepTimes, "_interpolated", None)
    assert (app.step_times.at((1, 0, 2), 5), app.step_times.at((0, *(1,) * 11), 6)) == first
