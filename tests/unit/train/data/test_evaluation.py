from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raytide.train.data.evaluation import (
    EvalProgress,
    eval_assignment,
    eval_batches,
    lost_batches,
    num_eval_batches,
)

NOTHING = EvalProgress()


def assignments(num_batches, progress, members):
    return {member: eval_assignment(num_batches, progress, members, member) for member in members}


@settings(deadline=None)
@given(numbers=st.sets(st.integers(0, 60)), finished=st.booleans())
def test_progress_keeps_its_numbers(numbers, finished):
    progress = EvalProgress.of(numbers, finished=finished)
    assert progress.numbers == numbers
    assert progress.finished is finished
    assert EvalProgress(progress.consumed, finished) == progress


def test_progress_is_compact():
    assert EvalProgress.of([7, 0, 1, 2, 3]).consumed == ((0, 4), (7, 8))
    assert EvalProgress.of([5, 4]).consumed == ((4, 6),)


@pytest.mark.parametrize("ranges", [((3, 3),), ((4, 2),), ((0, 2), (2, 4)), ((5, 6), (0, 1)), ((-1, 2),)])
def test_impossible_progress_cannot_be_made(ranges):
    with pytest.raises(AssertionError, match="not ascending"):
        EvalProgress(ranges)


def test_a_fresh_pass_is_split_in_rank_order():
    assert assignments(7, {}, ("b", "a", "c")) == {"b": (0, 1, 2), "a": (3, 4), "c": (5, 6)}


def test_more_members_than_batches():
    assert assignments(2, {}, ("a", "b", "c")) == {"a": (0,), "b": (1,), "c": ()}


def test_a_dead_members_batches_are_evaluated_again():
    progress = {"a": EvalProgress.of([0]), "b": EvalProgress.of([3, 4]), "c": EvalProgress.of([6])}
    assert assignments(9, progress, ("a", "c")) == {"a": (1, 2, 3, 4), "c": (5, 7, 8)}


def test_a_finished_member_gets_no_more():
    progress = {"a": EvalProgress.of([0, 1], finished=True), "b": EvalProgress.of([2])}
    assert assignments(6, progress, ("a", "b")) == {"a": (), "b": (3, 4, 5)}
    assert lost_batches(6, progress, ("a", "b")) == ()


def test_batches_are_lost_only_when_all_have_finished():
    progress = {"a": EvalProgress.of([0, 1], finished=True), "b": EvalProgress.of([2, 3], finished=True)}
    assert lost_batches(4, progress, ("a", "b")) == ()
    assert lost_batches(4, progress, ("a",)) == (2, 3)
    assert eval_assignment(4, progress, ("a",), "a") == ()


def test_a_stranger_gets_nothing():
    assert eval_assignment(4, {}, ("a",), "b") == ()


@settings(deadline=None)
@given(num_batches=st.integers(0, 25), num_members=st.integers(1, 6), data=st.data())
def test_any_failures_leave_every_batch_evaluated_once(num_batches, num_members, data):
    """Members consume in any interleaving and die at any time; survivors re-split each time."""
    members = [f"m{number}" for number in range(num_members)]
    progress = dict.fromkeys(members, NOTHING)
    plan = assignments(num_batches, progress, members)
    while not all(progress[member].finished for member in members):
        member = data.draw(st.sampled_from([m for m in members if not progress[m].finished]))
        todo = [number for number in plan[member] if number not in progress[member].numbers]
        event = data.draw(st.sampled_from(["consume", "die"])) if len(members) > 1 else "consume"
        if event == "die":
            members.remove(member)
            plan = assignments(num_batches, progress, members)
        elif todo:
            progress[member] = EvalProgress.of([*progress[member].numbers, todo[0]])
        else:
            progress[member] = EvalProgress(progress[member].consumed, finished=True)
    survived = [number for member in members for number in progress[member].numbers]
    assert len(survived) == len(set(survived))
    missing = set(range(num_batches)) - set(survived)
    assert set(lost_batches(num_batches, progress, members)) == missing


@settings(deadline=None)
@given(num_batches=st.integers(0, 30), data=st.data())
def test_a_re_split_gives_each_missing_batch_to_one_unfinished_member(num_batches, data):
    members = ["a", "b", "c", "d"]
    owner = [data.draw(st.sampled_from([*members, "dead", None])) for _ in range(num_batches)]
    progress = {
        name: EvalProgress.of((n for n, who in enumerate(owner) if who == name), finished=data.draw(st.booleans()))
        for name in [*members, "dead"]
    }
    given_out = [n for batches in assignments(num_batches, progress, members).values() for n in batches]
    missing = [n for n, who in enumerate(owner) if who in (None, "dead")]
    if all(progress[name].finished for name in members):
        assert given_out == []
        assert list(lost_batches(num_batches, progress, members)) == missing
    else:
        assert sorted(given_out) == missing
        assert lost_batches(num_batches, progress, members) == ()


def test_batches_of_numbers():
    batches = list(eval_batches(range(10), 4, (0, 2), epoch=3))
    assert [batch.indices for batch in batches] == [(0, 1, 2, 3), (8, 9)]
    assert [batch.weight for batch in batches] == [0.4, 0.2]
    assert [batch.step for batch in batches] == [0, 2]
    assert num_eval_batches(10, 4) == 3
