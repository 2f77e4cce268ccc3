"""Choosing slots is a pure function of the cluster and of what the job holds."""

from __future__ import annotations

import pytest

from raytide.actors.slots import NodeView, choose_slots, find_node, group_name, slots_per_node
from raytide.elastic.model import Slot
from raytide.errors import RequestRefused

A, B, C = (NodeView(f"id-{n}", n, 4, free) for n, free in (("a", 2), ("b", 4), ("c", 0)))


def test_fills_the_node_the_job_is_on_first() -> None:
    chosen = choose_slots(3, [A, B, C], held=[Slot("id-a", 0)])
    assert chosen == (Slot("id-a", 1), Slot("id-a", 2), Slot("id-b", 0))


def test_otherwise_the_emptiest_node() -> None:
    assert choose_slots(2, [A, B, C], held=[]) == (Slot("id-b", 0), Slot("id-b", 1))


def test_gives_what_there_is() -> None:
    assert len(choose_slots(50, [A, B, C], held=[])) == 6


def test_indices_of_held_slots_are_not_given_again() -> None:
    chosen = choose_slots(2, [A], held=[Slot("id-a", 0), Slot("id-a", 2)])
    assert [s.index for s in chosen] == [1, 3]


@pytest.mark.parametrize(
    ("resources", "amounts", "slots"),
    [
        ({"CPU": 1}, {"CPU": 4.0}, 4),
        ({"CPU": 2}, {"CPU": 5.0}, 2),
        ({"GPU": 0.1}, {"GPU": 0.3}, 3),
        ({"CPU": 1, "GPU": 1}, {"CPU": 8.0, "GPU": 2.0}, 2),
        ({"GPU": 1}, {"CPU": 8.0}, 0),
    ],
)
def test_slots_per_node(resources: dict[str, float], amounts: dict[str, float], slots: int) -> None:
    assert slots_per_node(resources, amounts) == slots


def test_nodes_are_found_by_name_or_beginning_of_id() -> None:
    assert find_node([A, B], "b") is B
    assert find_node([A, B], "id-a") is A
    with pytest.raises(RequestRefused, match="no node called 'x'; there are: a, b"):
        find_node([A, B], "x")
    with pytest.raises(RequestRefused, match="several nodes"):
        find_node([A, B], "id-")


def test_group_names_tell_jobs_apart() -> None:
    assert group_name("one", Slot("n", 0)) != group_name("two", Slot("n", 0))
