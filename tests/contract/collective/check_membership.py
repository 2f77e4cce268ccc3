"""Contract: connecting, not connecting, and changing the members under load."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import torch

from contract.collective import actions
from contract.collective.rig import Rig, State
from raytide.collective import (
    ConnectCancelled,
    ConnectRefused,
    ConnectTimeout,
    Group,
    GroupSpec,
    StoreAddress,
    connect,
)

PROMPT_S = 0.5
SETTLE_S = 10.0


def a_missing_member_is_named(rig: Rig) -> None:
    specs = [rig.spec("missing", rank, 4, connect_timeout_s=0.8) for rank in range(2)]
    found = rig.call([0, 1], actions.failing_connect, per_member=[(spec, None) for spec in specs])
    for error, seconds in found:
        assert type(error) is ConnectTimeout
        assert "ranks [2, 3] of 4 have not arrived" in str(error)
        assert 0.7 < seconds < 0.8 + PROMPT_S


def a_cancelled_connect_ends_at_once(rig: Rig) -> None:
    spec = rig.spec("cancelled", 0, 2)
    error, seconds = rig.call([0], actions.failing_connect, spec, 0.2)[0]
    assert type(error) is ConnectCancelled
    assert seconds < PROMPT_S
    # The other member is told, although it came later and would wait for 30 s.
    error, seconds = rig.call([1], actions.failing_connect, rig.spec("cancelled", 1, 2), None)[0]
    assert type(error) is ConnectTimeout
    assert seconds < PROMPT_S


def a_name_is_good_for_one_connect(rig: Rig) -> None:
    name = rig.connect([0, 1])
    error, _ = rig.call([0], actions.failing_connect, rig.spec(name, 0, 2), None)[0]
    assert type(error) is ConnectRefused
    rig.start([2], actions.failing_connect, rig.spec("sizes", 0, 2, connect_timeout_s=1.0), None)
    time.sleep(0.3)
    error, _ = rig.call([3], actions.failing_connect, rig.spec("sizes", 1, 3), None)[0]
    assert type(error) is ConnectRefused
    assert "2 members" in str(error)
    assert type(rig.results([2])[0][0]) is ConnectTimeout
    rig.call([0, 1], actions.close, name)


def alone(state: State, backend: str) -> dict[str, Any]:
    """Action: a group of one member, whose store does not exist."""
    group = connect(GroupSpec("alone/1", 0, 1, StoreAddress("192.0.2.1", 9), backend=backend))
    state.groups["alone/1"] = group
    tensor = actions.fill(state, 7.0)
    address = tensor.data_ptr()
    group.all_reduce(tensor).wait()
    assert tensor.data_ptr() == address
    found = actions.every_operation(state, "alone/1", torch.float32)
    group.close()
    return found


def a_group_of_one_needs_no_store(rig: Rig) -> None:
    found = rig.call([0], alone, rig.backend)[0]
    assert found["all_reduce sum"] == [1.0] * 5
    assert found["all_gather apart"] == [[1.0] * 5]
    assert found["reduce_scatter max adjacent"] == [1.0] * 5


def resize(state: State, old: str, spec: GroupSpec | None) -> tuple[int, float]:
    """Action: reduces without a pause over the old group until all members are ready for the new one.

    Returns:
        Steps done meanwhile, and the longest time between two steps, in seconds; the first step over the
        new group counts.
    """
    group, opened = state.groups.pop(old), _Opening(spec)
    steps, longest_s, before_s = 0, 0.0, time.monotonic()
    ready = 0
    while ready < group.world_size:
        tensor = actions.fill(state, 1.0, size=1000)
        tensor[0] = float(opened.ready())
        group.all_reduce(tensor).wait()
        assert float(tensor[-1]) == group.world_size
        steps, ready, now = steps + 1, int(tensor[0]), time.monotonic()
        longest_s, before_s = max(longest_s, now - before_s), now
    if spec is not None:
        state.groups[spec.name] = opened.group()
        actions.reduce_once(state, spec.name, 1.0)
        longest_s = max(longest_s, time.monotonic() - before_s)
    group.close()
    return steps, longest_s


class _Opening:
    """A connect in the background; a leaver has none and is always ready."""

    def __init__(self, spec: GroupSpec | None) -> None:
        self._spec, self._groups = spec, list[Group]()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def ready(self) -> bool:
        return not self._thread.is_alive()

    def group(self) -> Group:
        return self._groups[0]

    def _run(self) -> None:
        if self._spec is not None:
            self._groups.append(connect(self._spec))


def newcome(state: State, spec: GroupSpec) -> tuple[int, float]:
    """Action: joins as a newcomer and takes part in the first reduction."""
    state.groups[spec.name] = connect(spec)
    actions.reduce_once(state, spec.name, 1.0)
    return 0, 0.0


def change(rig: Rig, old: str, before: list[int], after: list[int]) -> tuple[str, list[tuple[int, float]]]:
    """One resize; the members of ``before`` keep reducing. Returns the new name and what the members saw."""
    name = rig.name()
    specs = {member: rig.spec(name, rank, len(after)) for rank, member in enumerate(after)}
    for member in before:
        rig.start([member], resize, old, specs.get(member))
    newcomers = [member for member in after if member not in before]
    for member in newcomers:
        rig.start([member], newcome, specs[member])
    found = rig.results(before)
    rig.results(newcomers)
    return name, found


def settle(state: State, fds: int, tasks: int) -> tuple[int, int]:
    """Action: waits until no more than the given descriptors and threads are open; returns what is open."""
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        found = len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))
        if found[0] <= fds and found[1] <= tasks:
            break
        time.sleep(0.02)
    return found


def cycle(rig: Rig) -> None:
    """1 -> 4 -> 2 -> 3 -> 1 members, under load."""
    sequence = [[2], [0, 1, 2, 3], [3, 1], [1, 0, 3], [3]]
    name = rig.connect(sequence[0])
    for before, after in itertools.pairwise(sequence):
        name, found = change(rig, name, before, after)
        assert all(steps > 0 for steps, _ in found)
    rig.call(sequence[-1], actions.close, name)


def members_change_under_load_without_leaks(rig: Rig) -> None:
    for member in range(4):
        rig.replace(member)
    # What the first operations of a process leave behind (thread pools, loop devices) is no leak.
    cycle(rig)
    time.sleep(1.0)
    first = rig.call(range(4), settle, 10**6, 10**6)
    for _ in range(4):
        cycle(rig)
    last = rig.call(range(4), settle, per_member=first)
    for (fds, tasks), (fds_before, tasks_before) in zip(last, first, strict=True):
        assert fds <= fds_before, (first, last)
        assert tasks <= tasks_before, (first, last)


CHECKS = (
    a_missing_member_is_named,
    a_cancelled_connect_ends_at_once,
    a_name_is_good_for_one_connect,
    a_group_of_one_needs_no_store,
    members_change_under_load_without_leaks,
)
