"""Jobs progress by values: a state, what it trains with, and seconds in; a new state out."""

from __future__ import annotations

import math

import pytest

from raytide.core import Split
from raytide.errors import ConfigError
from raytide.sim.pollux import (
    JobProgress,
    Running,
    advance,
    iteration_time,
    time_to_completion,
)

GAIN = 4 / (3 / 4 + 1)  # of batch 32, in both epochs
RATE = GAIN / 6.8  # on placement (1, 1, 2)
EPOCH_S = (90 / RATE, 210 / RATE)  # 267.75 s and 624.75 s


@pytest.fixture
def running(app) -> Running:
    return Running(app, (1, 1, 2), 32)


def test_passes_that_accumulate_skip_the_network(app) -> None:
    assert iteration_time(app, (2,), Split(2, 4, 0)) == pytest.approx(2.4)
    assert iteration_time(app, (2,), Split(2, 4, 3)) == pytest.approx(2.4 + 3 * 1.4)


def test_rate(app) -> None:
    assert Running(app, (1, 1, 2), 32).rate(0) == pytest.approx(RATE)
    assert Running(app, (1,), 8).rate(1) == pytest.approx(1 / 1.8)
    assert Running(app, (2,), 32).rate(0) == pytest.approx(GAIN / (2.8 + 1.8)), "two passes of 8 samples"


def test_without_gpus_the_rate_is_zero(app) -> None:
    assert Running(app, (), 8).rate(0) == Running(app, (0, 0), 8).rate(0) == 0.0


def test_more_gpus_than_samples_are_refused(app) -> None:
    with pytest.raises(ConfigError, match="9 cannot share 8 samples"):
        Running(app, (4, 4, 1), 8).rate(0)


def test_inside_an_epoch(running: Running) -> None:
    state = advance(JobProgress(), running, 0.0, 60.0)
    assert (state.epoch, state.completed_s) == (0, None)
    assert state.progress == pytest.approx(60 * RATE)


def test_a_delay_holds_progress_back(running: Running) -> None:
    delayed = JobProgress(epoch=1, progress=100.0).delayed(90.0)
    state = advance(delayed, running, 0.0, 60.0)
    assert state == JobProgress(epoch=1, progress=100.0, delay_s=30.0)
    state = advance(state, running, 60.0, 60.0)
    assert state.delay_s == 0.0
    assert state.progress == pytest.approx(100 + 30 * RATE)


def test_a_delay_is_set_not_added() -> None:
    assert JobProgress(delay_s=20.0).delayed(30.0) == JobProgress(delay_s=30.0)


def test_without_gpus_a_job_stays_as_it_is(app) -> None:
    state = JobProgress(progress=5.0, delay_s=30.0)
    idle = Running(app, (0, 0), 8)
    assert advance(state, idle, 0.0, 1e9) is state
    assert time_to_completion(state, idle) == math.inf


def test_time_to_completion(running: Running) -> None:
    start = JobProgress().delayed(30.0)
    assert time_to_completion(start, running) == pytest.approx(30 + sum(EPOCH_S))
    late = JobProgress(epoch=1, progress=299.0)
    assert time_to_completion(late, running) == pytest.approx(1 / RATE)


def test_continuous_time_ends_epochs_where_they_end(running: Running) -> None:
    state = advance(JobProgress(), running, 0.0, EPOCH_S[0] + 10)
    assert state.epoch == 1
    assert state.progress == pytest.approx(90 + 10 * RATE)


def test_whole_seconds_end_epochs_late_or_early(running: Running) -> None:
    state = advance(JobProgress(), running, 0.0, 300.0, whole_seconds=True)
    assert state.progress == pytest.approx(90 + (300 - 268) * RATE), "267.75 s are 268"


def test_whole_seconds_need_the_boundary_within_the_round(running: Running) -> None:
    start = JobProgress()
    assert advance(start, running, 0.0, 267.0, whole_seconds=True).epoch == 0
    assert advance(start, running, 0.0, 268.0, whole_seconds=True) == JobProgress(1, 90.0)


@pytest.mark.parametrize(("whole_seconds", "taken_s"), [(False, sum(EPOCH_S)), (True, 268 + 625)])
def test_completion_tells_its_time_and_is_final(running: Running, whole_seconds: bool, taken_s: float) -> None:
    done = advance(JobProgress(), running, 1000.0, 5000.0, whole_seconds=whole_seconds)
    assert (done.epoch, done.progress) == (2, 300.0)
    assert done.completed_s == pytest.approx(1000 + taken_s)
    assert advance(done, running, 6000.0, 60.0) is done
    assert time_to_completion(done, running) == 0.0


def test_steps_of_any_size_come_to_the_same_end(running: Running) -> None:
    state, now_s, step_s = JobProgress().delayed(30.0), 0.0, 0.7
    while state.completed_s is None:
        state = advance(state, running, now_s, step_s)
        now_s += step_s
    assert state.completed_s == pytest.approx(30 + sum(EPOCH_S), abs=1e-4)


def test_a_clock_that_jumps_from_boundary_to_boundary_never_sticks(running: Running) -> None:
    state, now_s, jumps = JobProgress().delayed(30.0), 1e6 / 3, 0
    while state.completed_s is None:
        missing = running.app.boundaries[state.epoch + 1] - state.progress
        event_s = now_s + state.delay_s + missing / running.rate(state.epoch)
        state = advance(state, running, now_s, event_s - now_s)
        now_s, jumps = event_s, jumps + 1
    assert jumps == 2
