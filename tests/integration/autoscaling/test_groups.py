"""Groups that ask for nodes, on a real cluster that does not grow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray

from raytide.actors.scheduler.autoscaling import RayGroups, group_name, withdraw_all
from raytide.actors.scheduler.demand import Demand
from raytide.actors.scheduler.nodes import LOOKS, Cluster
from support.cluster import SLOTS_PER_NODE, TestCluster
from support.platform import SLOT, wait_for


@pytest.fixture
def groups(cluster: TestCluster) -> Iterator[RayGroups]:
    yield RayGroups(SLOT)
    withdraw_all()


def asked(groups: RayGroups, demand: Demand, there: bool) -> str:
    """Ask, and wait until Ray says so; returns the group's id."""
    name = group_name(demand)
    groups.ask(name, demand)
    wait_for(lambda: name in groups.known() and groups.known()[name].there == there, f"{name}: {there}")
    return groups.known()[name].identity


def nodes() -> dict[str, str]:
    """Ids of the nodes by name."""
    return {node["Labels"]["raytide.node"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}


def test_a_group_waits_holds_nothing_and_can_be_asked_for_again(groups: RayGroups) -> None:
    wide = Demand("wide", (1,) * (2 * SLOTS_PER_NODE + 1))
    for _ in range(2):
        identity = asked(groups, wide, there=False)
        assert taken() == {}
        groups.withdraw(identity)
        wait_for(lambda: groups.known() == {}, "removal")


def test_a_group_whose_nodes_are_there_is_no_use_by_others(groups: RayGroups) -> None:
    asked(groups, Demand("wide", (2, 1, 1)), there=True)
    wait_for(lambda: taken() == {}, "all slots to be the platform's")


def test_what_is_free_on_a_node_that_goes_is_not_meant(groups: RayGroups) -> None:
    known = nodes()
    identity = asked(groups, Demand("one", (1,) * SLOTS_PER_NODE, (known["node-a"],)), there=True)
    (entry,) = [g for g in ray.util.placement_group_table().values() if g["placement_group_id"] == identity]
    assert set(entry["bundles_to_node_id"].values()) == {known["node-b"]}
    asked(groups, Demand("two", (1,) * SLOTS_PER_NODE, tuple(sorted(known.values()))), there=False)


def taken() -> dict[str, int]:
    """Slots by node that others use, as the scheduler counts them."""
    cluster = Cluster(SLOT, dict)
    looks = [cluster.look() for _ in range(LOOKS)]
    return {name: slots for name, slots in looks[-1].taken.items() if slots}
