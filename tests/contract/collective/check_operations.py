"""Contract: what every operation computes, in every order of starting and waiting."""

from __future__ import annotations

from collections.abc import Callable

import torch

from contract.collective import actions
from contract.collective.rig import Rig, State
from raytide.collective import CollectiveError, InvalidOperation

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8)


def expected(rank: int, size: int) -> dict[str, object]:
    """What ``actions.every_operation`` must find on one rank."""
    sums = {"sum": sum(range(1, size + 1)), "max": size, "min": 1}
    found: dict[str, object] = {}
    for op, value in sums.items():
        found[f"all_reduce {op}"] = [value] * 5
        for layout in ("apart", "adjacent"):
            found[f"reduce_scatter {op} {layout}"] = [value * (rank + 1)] * 5
    for root in range(size):
        found[f"broadcast {root}"] = [root + 1] * 5
    for layout in ("apart", "adjacent"):
        found[f"all_gather {layout}"] = [[place + 1] * 5 for place in range(size)]
    return found


def every_operation_has_its_exact_value(rig: Rig) -> None:
    for members in ([0, 1], [2, 0, 1]):
        name = rig.connect(members)
        for dtype in DTYPES:
            for rank, found in enumerate(rig.call(members, actions.every_operation, name, dtype)):
                assert found == expected(rank, len(members)), (dtype, rank)
        rig.call(members, actions.close, name)


def groups_overlap(rig: Rig) -> None:
    memberships = [[0, 1, 2], [2, 0], [3, 1, 0, 2]]
    names = [rig.connect(members) for members in memberships]
    mine = {
        worker: [name for name, members in zip(names, memberships, strict=True) if worker in members]
        for worker in range(4)
    }
    sums = dict(zip(names, (6.0, 3.0, 10.0), strict=True))
    for _ in range(3):
        found = rig.call(range(4), actions.reduce_in_all, per_member=[(mine[worker],) for worker in range(4)])
        assert found == [[sums[name] for name in mine[worker]] for worker in range(4)]
    for name, members in zip(names, memberships, strict=True):
        rig.call(members, actions.close, name)


def handles_are_awaited_in_any_order(rig: Rig) -> None:
    name = rig.connect([0, 1, 2])
    for found in rig.call([0, 1, 2], actions.wait_backwards, name, 8):
        assert found == [6.0 * index for index in range(8)]
    rig.call([0, 1, 2], actions.close, name)


def refuse_all(state: State, name: str) -> list[CollectiveError]:
    """Action: every misuse that a group must refuse before anything is sent."""
    group, tensor = state.groups[name], actions.fill(state, 1.0, size=4)
    misuses: list[Callable[[], object]] = [
        lambda: group.all_reduce(tensor.view(2, 2).t()),
        lambda: group.all_reduce(tensor.to(torch.int16)),
        lambda: group.broadcast(tensor, 2),
        lambda: group.broadcast(tensor, -1),
        lambda: group.all_gather([tensor], tensor),
        lambda: group.all_gather([tensor, tensor[:2]], tensor),
        lambda: group.reduce_scatter(tensor, [tensor, tensor.double()]),
    ]
    refusals: list[CollectiveError] = []
    for misuse in misuses:
        try:
            misuse()
        except CollectiveError as error:
            refusals.append(error)
    return refusals


def misuse_is_refused_and_harmless(rig: Rig) -> None:
    name = rig.connect([0, 1])
    refusals = rig.call([0], refuse_all, name)[0]
    assert [type(error) for error in refusals] == [InvalidOperation] * 7
    assert all(isinstance(error, ValueError) for error in refusals)
    assert "contiguous" in str(refusals[0])
    assert "int16" in str(refusals[1])
    assert rig.call([0, 1], actions.reduce_once, name, 2.0) == [4.0, 4.0]
    rig.call([0, 1], actions.close, name)


def describe(state: State, name: str) -> tuple[object, ...]:
    """Action: what a group says of itself, after two operations."""
    group = state.groups[name]
    before = group.last_operation
    group.all_reduce(actions.fill(state, 1.0)).wait()
    group.broadcast(actions.fill(state, 1.0, torch.int64, size=2), 0).wait()
    where = (group.name == name, group.rank, group.world_size, group.backend, group.control.backend)
    return (*where, before, group.last_operation, group.waiting_for, group.failed)


def a_group_describes_itself(rig: Rig) -> None:
    name = rig.connect([1, 0])
    for rank, found in enumerate(rig.call([1, 0], describe, name)):
        last = "broadcast #2 int64[2]"
        assert found == (True, rank, 2, rig.backend, "gloo", None, last, None, False)
    rig.call([1, 0], actions.close, name)


def empty_and_control(state: State, name: str) -> tuple[int, int]:
    """Action: a tensor without elements, and a control reduction of CPU integers."""
    group = state.groups[name]
    empty = actions.fill(state, 1.0, size=0)
    group.all_reduce(empty).wait()
    number = torch.tensor([2**53 + 1], dtype=torch.int64)
    group.control.all_reduce(number).wait()
    return empty.numel(), int(number)


def control_reductions_are_exact(rig: Rig) -> None:
    name = rig.connect([0, 1])
    assert rig.call([0, 1], empty_and_control, name) == [(0, 2**54 + 2)] * 2
    rig.call([0, 1], actions.close, name)


CHECKS = (
    every_operation_has_its_exact_value,
    groups_overlap,
    handles_are_awaited_in_any_order,
    misuse_is_refused_and_harmless,
    a_group_describes_itself,
    control_reductions_are_exact,
)
