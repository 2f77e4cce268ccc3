from __future__ import annotations

import numpy as np
import pytest

from raytide.sim.series import Steps

STEPS = Steps.of([1.0, 3.0, 3.0, 6.0], [2, 9, 0, 1])


def test_values():
    assert STEPS.at([0.0, 1.0, 2.9, 3.0, 5.0, 6.0, 99.0]).tolist() == [0, 2, 2, 0, 0, 1, 1]


def test_integrals():
    assert STEPS.integral([0.0, 1.0, 2.0, 3.0, 5.0, 8.0]).tolist() == [0, 0, 2, 4, 4, 6]
    assert STEPS.area(2.0, 7.0) == 3.0


def test_means_are_exact_whatever_the_bins():
    assert STEPS.means(np.array([0.0, 2.0, 6.0])).tolist() == [1.0, 0.5]


def test_when_an_area_is_reached():
    assert STEPS.reached_s(np.array([0.0, 1.0, 4.0, 4.5])).tolist() == [1.0, 1.5, 3.0, 6.5]
    assert Steps.of([0.0, 1.0], [1, 0]).reached_s(np.array([1.0, 1.1])).tolist() == [1.0, np.inf]


def test_changes_add_up():
    assert Steps.of_changes([0.0, 1.0, 2.0], [3, -1, -2]).value.tolist() == [3, 2, 0]


def test_nothing_is_nothing():
    nothing = Steps.of([], [])
    assert nothing.area(0.0, 5.0) == 0.0
    assert nothing.at([1.0]).tolist() == [0.0]


def test_integral_and_inverse_agree():
    rng = np.random.default_rng(0)
    steps = Steps(np.cumsum(rng.exponential(size=50)), rng.random(50) + 0.1)
    at_s = steps.time_s[0] + rng.random(20) * 80
    assert steps.reached_s(steps.integral(at_s)) == pytest.approx(at_s)
