from __future__ import annotations

import pickle

import pytest

from raytide.core import NOTHING, IllegalTransition, Job, JobState, replicas
from raytide.core.job import STORY_LINES
from raytide.core.lifecycle import ENDED, HOLDING, TRANSITIONS, WAITING
from support.scheduling import job


def test_every_state_is_waiting_holding_or_ended():
    assert frozenset(JobState) == WAITING | HOLDING | ENDED
    assert not WAITING & HOLDING
    assert not ENDED & (WAITING | HOLDING)


def test_the_table_covers_every_state_and_ends_are_final():
    assert TRANSITIONS.keys() == set(JobState)
    assert all(not TRANSITIONS[state] for state in ENDED)


def test_every_state_can_be_reached_and_left_for_an_end():
    reached = {JobState.PENDING}
    while more := {next_ for state in reached for next_ in TRANSITIONS[state]} - reached:
        reached |= more
    assert reached == set(JobState)
    for state in WAITING | HOLDING:
        seen = {state}
        while more := {next_ for each in seen for next_ in TRANSITIONS[each]} - seen:
            seen |= more
        assert seen & ENDED, state


def test_an_illegal_transition_tells_the_story_and_travels():
    record = Job(job("j"), 0)
    record.become(5.0, JobState.STARTING, "given 1 replica")
    with pytest.raises(IllegalTransition) as said:
        record.become(9.0, JobState.REFUSED, "no")
    copy = pickle.loads(pickle.dumps(said.value))
    assert str(copy) == (
        "job j is starting and cannot become refused. Its story:\n"
        "  0.0 s: pending: submitted\n"
        "  5.0 s: starting: given 1 replica"
    )


def test_a_long_story_keeps_its_beginning_and_its_end():
    record = Job(job("j"), 0)
    record.become(0.0, JobState.STARTING, "given 1 replica")
    record.become(0.0, JobState.RUNNING, "runs")
    for i in range(STORY_LINES):
        record.become(i, JobState.RESIZING, "a")
        record.become(i, JobState.RUNNING, f"resize {i}")
    assert len(record.story()) == STORY_LINES
    assert record.story()[0].endswith("submitted")
    assert record.story()[-1].endswith(f"resize {STORY_LINES - 1}")


def test_attained_service_counts_what_was_held_when():
    record = Job(job("j", 1, to=4, at=10.0), 0)
    assert record.attained_gpu_s(50.0) == 0.0
    record.hold(20.0, replicas(2))
    record.hold(30.0, replicas(4))
    assert record.attained_gpu_s(35.0) == 40.0
    record.hold(40.0, NOTHING)
    assert record.attained_gpu_s(99.0) == 60.0
    assert record.run_s(99.0) == 20.0
    assert record.first_start_s == 20.0
    assert record.queued_s == 40.0
