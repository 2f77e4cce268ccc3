from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raytide.core import (
    NOTHING,
    LinearSpeed,
    Measurement,
    ServerSpeed,
    Shape,
    SpeedCurve,
    SpeedTable,
    TypedSpeed,
    fit_curve,
)
from raytide.errors import ConfigError


def test_a_table_is_linear_between_sizes_and_constant_beyond():
    table = SpeedTable({2: 10.0, 4: 16.0, 8: 12.0})
    assert [table.speed(n) for n in (1, 2, 3, 4, 6, 8, 64)] == [5.0, 10.0, 13.0, 16.0, 14.0, 12.0, 12.0]
    assert table.speed(0) == 0.0


def test_unknown_jobs_are_taken_to_scale():
    assert LinearSpeed(3.0).speed(4, nodes=2) == 12.0


def test_types_have_speeds_of_their_own_and_the_slowest_stands_for_unknown_ones():
    typed = TypedSpeed({"A100": LinearSpeed(3.0), "T4": SpeedTable({1: 1.0, 8: 32.0})})
    assert typed.on("A100").speed(2) == 6.0
    assert typed.speed(1) == typed.on("H100").speed(1) == 1.0
    assert typed.speed(8) == 24.0


CURVE = SpeedCurve(4.0, 0.1, 0.2, 0.01, 0.5, 0.05)


def measured(*sizes: tuple[int, int]) -> list[Measurement]:
    return [Measurement(gpus, nodes, CURVE.step_s(gpus, nodes)) for gpus, nodes in sizes]


def test_enough_measurements_give_the_curve_back():
    fitted = fit_curve(measured((1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (8, 2)))
    for size in [(1, 1), (4, 1), (6, 2), (16, 4)]:
        assert fitted.step_s(*size) == pytest.approx(CURVE.step_s(*size), rel=1e-6)


def test_two_sizes_tell_compute_from_communication():
    fitted = fit_curve(measured((1, 1), (4, 1)))
    assert fitted.step_s(1) == pytest.approx(CURVE.step_s(1))
    assert fitted.step_s(4) == pytest.approx(CURVE.step_s(4))
    assert CURVE.step_s(2) * 0.8 < fitted.step_s(2) < CURVE.step_s(2) * 1.2


def test_several_nodes_are_no_faster_than_one_until_somebody_has_measured_them():
    fitted = fit_curve(measured((1, 1), (2, 1), (4, 1)))
    assert fitted.step_s(4, nodes=2) >= fitted.step_s(4, nodes=1)


def test_one_size_counts_as_compute():
    fitted = fit_curve([Measurement(2, 1, 3.0)])
    assert fitted.speed(4) == pytest.approx(2 * fitted.speed(2))


def test_curves_may_fall_with_size():
    slow_network = SpeedCurve(1.0, 0.0, 0.0, 0.0, 0.5, 0.5)
    assert slow_network.speed(2, nodes=2) > slow_network.speed(8, nodes=4)
    assert slow_network.speed(0) == 0.0


@given(st.lists(st.tuples(st.integers(1, 16), st.floats(0.01, 100.0)), min_size=1, max_size=8))
def test_every_fit_is_positive_everywhere(rows):
    fitted = fit_curve(Measurement(gpus, 1, step_s) for gpus, step_s in rows)
    assert all(fitted.step_s(n, nodes) > 0 for n in range(1, 65) for nodes in {1, min(n, 4)})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SpeedTable({}), "is no table of speeds"),
        (lambda: SpeedTable({0: 1.0}), "is no table of speeds"),
        (lambda: SpeedTable({1: float("nan")}), "is no table of speeds"),
        (lambda: TypedSpeed({}), "TypedSpeed.by_type: no GPU type is given"),
        (lambda: Measurement(1, 2, 1.0), "1.0 s on 1 GPUs of 2 nodes"),
        (lambda: Measurement(1, 1, 0.0), "0.0 s on 1 GPUs"),
        (lambda: fit_curve([]), "fit_curve(measurements): there is none"),
    ],
)
def test_nonsense_is_refused(make, words):
    with pytest.raises(ConfigError) as said:
        make()
    assert words in str(said.value)


def test_servers_relieve_workers_until_they_are_too_many():
    model = ServerSpeed(compute_s=8.0, fixed_s=0.5, transfer_s=2.0, worker_s=0.1, server_s=0.2)

    def speed(workers: int, servers: int) -> float:
        return model.shape_speed(Shape((("worker", workers), ("server", servers))))

    assert speed(4, 2) == pytest.approx(1 / (2.0 + 0.5 + 4.0 + 0.4 + 0.4))
    assert speed(4, 2) < speed(4, 4) > speed(4, 40)
    assert model.shape_speed(NOTHING) == model.speed(0) == 0.0
    assert model.speed(4) == speed(4, 4)
