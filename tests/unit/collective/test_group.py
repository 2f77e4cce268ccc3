"""A group's life: counting, waiting, failing, ending; over a transport that moves nothing."""

from __future__ import annotations

import pytest
import torch

from raytide.collective import (
    CollectiveAborted,
    CollectiveTimeout,
    Group,
    GroupClosed,
    GroupSpec,
    InvalidOperation,
    PeerLost,
    StoreAddress,
)
from raytide.collective.transport import TransportFailure
from unit.collective.fakes import FakeTransport, ScriptedHandle

TENSOR = torch.ones(3)


def group_over(transport: FakeTransport, timeout_s: float = 30.0) -> Group:
    return Group(GroupSpec("job/1", 1, 2, StoreAddress("localhost", 4000), timeout_s=timeout_s), transport)


def lose(_polls: int) -> bool:
    raise TransportFailure(PeerLost, "Connection closed by peer")


def test_a_fast_operation_costs_one_poll() -> None:
    handle = ScriptedHandle(lambda polls: True)
    work = group_over(FakeTransport(handle)).all_reduce(TENSOR)
    work.wait()
    work.wait()
    assert handle.polls == 1
    assert work.done()


def test_a_slow_operation_shows_while_it_is_awaited() -> None:
    seen: list[str | None] = []

    def script(polls: int) -> bool:
        seen.append(group.waiting_for)
        return polls == 3

    group = group_over(FakeTransport(ScriptedHandle(script)))
    group.all_reduce(TENSOR).wait()
    assert seen[0] is None
    assert seen[1] == "all_reduce #1 float32[3] for 0.0 s"
    assert group.waiting_for is None


def test_a_callers_own_limit_does_not_end_the_group() -> None:
    transport = FakeTransport(ScriptedHandle(lambda polls: polls == 2))
    group = group_over(transport)
    work = group.all_reduce(TENSOR)
    with pytest.raises(CollectiveTimeout, match="still in flight"):
        work.wait(0.0)
    work.wait()
    assert not group.failed
    assert transport.ended == []


def test_the_operations_limit_ends_the_group() -> None:
    transport = FakeTransport(ScriptedHandle(lambda polls: False))
    group = group_over(transport, timeout_s=1e-9)
    with pytest.raises(CollectiveTimeout, match="limit of 1e-09 s"):
        group.all_reduce(TENSOR).wait()
    with pytest.raises(CollectiveTimeout):
        group.all_reduce(TENSOR)
    assert transport.ended == ["abandon"]


def test_a_transports_failure_is_told_with_the_operation() -> None:
    group = group_over(FakeTransport(ScriptedHandle(lose)))
    group.broadcast(torch.ones(2, 2, dtype=torch.int64), 0)
    with pytest.raises(PeerLost, match=r"group job/1, rank 1: all_reduce #2 float32\[3\] failed after"):
        group.all_reduce(TENSOR).wait()


def test_an_abort_reaches_a_wait_and_every_later_call() -> None:
    def script(polls: int) -> bool:
        group.abort("first")
        return False

    transport = FakeTransport(ScriptedHandle(script))
    group = group_over(transport)
    work = group.all_reduce(TENSOR)
    with pytest.raises(CollectiveAborted, match="first"):
        work.wait()
    group.abort("second")
    for call in (work.wait, lambda: group.all_reduce(TENSOR), group.barrier):
        with pytest.raises(CollectiveAborted, match="first"):
            call()
    assert work.done()
    assert transport.ended == ["abandon"]


def test_what_looks_complete_after_an_abort_is_no_result() -> None:
    def script(polls: int) -> bool:
        group.abort("its kernels end at once")
        return True

    group = group_over(FakeTransport(ScriptedHandle(script)))
    with pytest.raises(CollectiveAborted):
        group.all_reduce(TENSOR).wait()


def test_a_closed_group_refuses_operations_but_ends_its_own() -> None:
    transport = FakeTransport(ScriptedHandle(lambda polls: True))
    group = group_over(transport)
    work = group.all_reduce(TENSOR)
    group.close()
    work.wait()
    with pytest.raises(GroupClosed):
        group.all_reduce(TENSOR)
    assert transport.ended == ["release"]


def test_only_started_operations_are_counted() -> None:
    group = group_over(FakeTransport())
    assert group.last_operation is None
    with pytest.raises(InvalidOperation):
        group.broadcast(TENSOR, 5)
    with pytest.raises(InvalidOperation, match="contiguous"):
        group.all_reduce(torch.ones(2, 3).t())
    group.all_gather([TENSOR, TENSOR], TENSOR)
    assert group.last_operation == "all_gather #1 float32[3]"


def test_a_failure_of_the_control_group_is_the_groups_own() -> None:
    spec = GroupSpec("job/1", 0, 2, StoreAddress("localhost", 4000))
    control = Group(spec, FakeTransport(ScriptedHandle(lose)))
    big = FakeTransport()
    group = Group(spec, big, control._fate, control)
    with pytest.raises(PeerLost):
        group.barrier()
    with pytest.raises(PeerLost):
        group.all_reduce(TENSOR)
    assert big.ended == ["abandon"]
