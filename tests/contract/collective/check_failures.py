"""Contract: time limits, aborts, killed and frozen peers."""

from __future__ import annotations

import signal
import time

from contract.collective import actions
from contract.collective.rig import Rig, State
from raytide.collective import CollectiveAborted, CollectiveTimeout, GroupClosed, PeerLost

# Two busy cores may hold a thread back this long, in seconds; typical values are a tenth of it.
PROMPT_S = 0.5


def a_short_wait_leaves_the_operation_in_flight(rig: Rig) -> None:
    name = rig.connect([0, 1])
    rig.start([0], actions.wait_twice, name, 0.1)
    time.sleep(0.4)
    rig.start([1], actions.reduce_once, name, 2.0)
    (error, value), _ = rig.results([0, 1])
    assert type(error) is CollectiveTimeout
    assert "all_reduce #1 float32[5]" in str(error)
    assert 0.1 <= error.seconds < 0.1 + PROMPT_S
    assert value == 3.0
    rig.call([0, 1], actions.close, name)


def the_limit_of_an_operation_ends_the_group(rig: Rig) -> None:
    name = rig.connect([0, 1, 2], timeout_s=0.5)
    for error, _ in rig.call([0, 1], actions.failing, name):
        assert type(error) is CollectiveTimeout
        assert 0.4 <= error.seconds < 0.5 + PROMPT_S
    # The silent member learns it as soon as it looks.
    error, _ = rig.call([2], actions.failing, name)[0]
    assert type(error) is CollectiveTimeout
    assert "gave up" in str(error)
    rig.call([0, 1, 2], actions.close, name)


def an_abort_from_another_thread_is_seen_at_once(rig: Rig) -> None:
    name = rig.connect([0, 1, 2])
    rig.start([1], actions.failing, name)
    rig.start([0], actions.failing_while, name, 0.3, actions.abort_telling, "the scheduler says so")
    (error, delay_s, waiting_for), (other, _) = rig.results([0, 1])
    assert type(error) is CollectiveAborted
    assert type(other) is CollectiveAborted
    assert error.detail == "the scheduler says so"
    assert other.detail == "rank 0 gave up: the scheduler says so"
    assert delay_s < PROMPT_S
    assert waiting_for.startswith("all_reduce #1 float32[5] for 0.")
    # Later calls raise the first reason, whatever is said later.
    rig.call([0], actions.abort, name, "another reason")
    for found, _ in rig.call([0, 2], actions.failing, name):
        assert type(found) is CollectiveAborted
        assert "the scheduler says so" in str(found)
    rig.call([0, 1, 2], actions.close, name)


def a_killed_peer_is_named_and_survivors_go_on(rig: Rig) -> None:
    name = rig.connect([0, 1, 2, 3])
    rig.start([0, 1, 3], actions.failing, name)
    time.sleep(0.2)
    killed_s = time.monotonic()
    rig.workers[2].signal(signal.SIGKILL)
    for error, raised_s in rig.results([0, 1, 3]):
        assert type(error) is PeerLost
        assert "rank 2 is gone" in str(error)
        assert raised_s - killed_s < PROMPT_S
    rig.replace(2)
    survivors = rig.connect([3, 0, 1])
    assert rig.call([3, 0, 1], actions.reduce_once, survivors, 1.0) == [3.0] * 3
    again = rig.connect([0, 1, 2, 3])
    assert rig.call([0, 1, 2, 3], actions.reduce_once, again, 1.0) == [4.0] * 4
    rig.call([0, 1, 3], actions.close, survivors)
    rig.call([0, 1, 2, 3], actions.close, again)


def a_frozen_peer_wakes_without_harm(rig: Rig) -> None:
    name = rig.connect([0, 1, 2], timeout_s=20.0)
    rig.call([0, 1, 2], actions.reduce_once, name, 1.0)
    rig.workers[2].signal(signal.SIGSTOP)
    # The frozen member finds its part of the operation when it wakes.
    rig.start([2], actions.failing, name, "late", 1000.0)
    rig.start([1], actions.failing, name, "old")
    rig.start([0], actions.failing_while, name, 0.3, actions.abort, "rank 2 does not answer")
    (error, delay_s, _), (other, _) = rig.results([0, 1])
    assert (type(error), type(other)) == (CollectiveAborted, CollectiveAborted)
    assert delay_s < PROMPT_S
    survivors = rig.connect([0, 1])
    assert rig.call([0, 1], actions.reduce_into, survivors, "new", 5.0) == [10.0, 10.0]
    rig.workers[2].signal(signal.SIGCONT)
    late, _ = rig.results([2])[0]
    assert isinstance(late, (CollectiveAborted, PeerLost))
    time.sleep(0.3)
    assert rig.call([0, 1], actions.values, "new") == [[10.0] * 5] * 2
    assert rig.call([0, 1], actions.reduce_once, survivors, 7.0) == [14.0, 14.0]
    rig.call([0, 1], actions.close, survivors)
    rig.call([0, 1, 2], actions.close, name)


def close_in_flight(state: State, name: str, rounds: int) -> tuple[list[float], GroupClosed]:
    """Action: closes a group between start and wait, then tries one more operation."""
    group = state.groups.pop(name)
    tensors = [actions.fill(state, 1.0) for _ in range(rounds)]
    works = [group.all_reduce(tensor) for tensor in tensors]
    group.close()
    group.close()
    for work in works:
        work.wait()
    try:
        group.all_reduce(tensors[0])
    except GroupClosed as error:
        return [float(tensor[0]) for tensor in tensors], error
    raise AssertionError("a closed group took an operation")


def a_closed_group_ends_what_is_in_flight(rig: Rig) -> None:
    for _ in range(5):
        name = rig.connect([0, 1, 2])
        for found, error in rig.call([0, 1, 2], close_in_flight, name, 4):
            assert found == [3.0] * 4
            assert name in str(error)


CHECKS = (
    a_short_wait_leaves_the_operation_in_flight,
    the_limit_of_an_operation_ends_the_group,
    an_abort_from_another_thread_is_seen_at_once,
    a_killed_peer_is_named_and_survivors_go_on,
    a_frozen_peer_wakes_without_harm,
    a_closed_group_ends_what_is_in_flight,
)
