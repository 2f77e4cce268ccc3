"""Members announce themselves before anybody connects."""

from __future__ import annotations

import threading

import pytest

from raytide.collective import GroupSpec, StoreAddress
from raytide.collective.rendezvous import Refused, addresses, announce, wait_for_all
from unit.collective.fakes import FakeStore


def spec(rank: int, world_size: int, backend: str = "gloo") -> GroupSpec:
    return GroupSpec("job/1", rank, world_size, StoreAddress("localhost", 4000), backend=backend)


def test_all_are_there_once_all_have_announced_themselves() -> None:
    store, missing = FakeStore(), [0, 1]
    announce(store, spec(0, 2), "a:1")
    announce(store, spec(1, 2), "b:2")
    assert wait_for_all(store, missing, threading.Event())
    assert missing == []
    assert addresses(store, 2) == ["a:1", "b:2"]


def test_the_missing_are_known_when_the_wait_is_given_up() -> None:
    store, missing, stop = FakeStore(), [0, 1, 2], threading.Event()
    announce(store, spec(1, 3), "b:2")
    check = store.check

    def check_then_stop(keys: list[str]) -> bool:
        stop.set()
        return check(keys)

    store.check = check_then_stop  # type: ignore[method-assign] # stops in the middle
    assert not wait_for_all(store, missing, stop)
    assert missing == [0, 2]


def test_a_name_is_refused_the_second_time() -> None:
    store = FakeStore()
    announce(store, spec(0, 2), "a:1")
    with pytest.raises(Refused, match="used before"):
        announce(store, spec(0, 2), "a:1")


@pytest.mark.parametrize("other", [spec(1, 3), spec(1, 2, "nccl")])
def test_members_must_agree_about_the_group(other: GroupSpec) -> None:
    store = FakeStore()
    announce(store, spec(0, 2), "a:1")
    with pytest.raises(Refused, match="this member expects"):
        announce(store, other, "b:2")
