"""Slots of a Ray cluster: choosing free ones, and holding each with a placement group of its own.

Placement groups cannot be resized and removing one kills its actors, so every replica has one to
itself, pinned to the planned node: any replica can leave alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from raytide.actors.untyped import free_resources, group_of, nodes
from raytide.elastic.model import Slot
from raytide.errors import RequestRefused

RESERVE_TIMEOUT_S = 15.0
"""A free slot is reserved in milliseconds; longer means that somebody else took it."""


@dataclass(frozen=True)
class NodeView:
    """One living node.

    Attributes:
        node: Its id.
        name: What people call it: its ``raytide.node`` label, or the beginning of its id.
        total: Slots it has in all.
        free: Slots nobody holds.
    """

    node: str
    name: str
    total: int
    free: int


def choose_slots(count: int, nodes: Sequence[NodeView], held: Sequence[Slot]) -> tuple[Slot, ...]:
    """Choose ``count`` free slots: on the nodes that the job holds most of already, then the emptiest.

    Args:
        count: How many.
        nodes: The cluster.
        held: Slots the job holds; their indices are not given again.

    Returns:
        As many slots as there are, at most ``count``.
    """
    mine = {view.node: sum(1 for s in held if s.node == view.node) for view in nodes}
    order = sorted(nodes, key=lambda view: (-mine[view.node], -view.free, view.name))
    chosen: list[Slot] = []
    for view in order:
        for _ in range(min(view.free, count - len(chosen))):
            taken = {s.index for s in (*held, *chosen) if s.node == view.node}
            chosen.append(Slot(view.node, next(i for i in range(len(taken) + 1) if i not in taken)))
    return tuple(chosen)


def slots_per_node(resources: Mapping[str, float], amounts: Mapping[str, float]) -> int:
    """How many slots of ``resources`` fit into ``amounts``."""
    needed = {name: amount for name, amount in resources.items() if amount > 0}
    if not needed:
        return 1
    return min(int(amounts.get(name, 0.0) / amount + 1e-9) for name, amount in needed.items())


def cluster_view(resources: Mapping[str, float]) -> tuple[NodeView, ...]:
    """The living nodes of the connected cluster, with their slots of ``resources``."""
    available = free_resources()
    views = []
    for node in nodes():
        if not node["Alive"]:
            continue
        identity = node["NodeID"]
        name = node["Labels"].get("raytide.node", identity[:8])
        total = slots_per_node(resources, node["Resources"])
        views.append(NodeView(identity, name, total, slots_per_node(resources, available.get(identity, {}))))
    return tuple(sorted(views, key=lambda view: view.name))


def find_node(nodes: Sequence[NodeView], name: str) -> NodeView:
    """The node with this name, or whose id begins with it.

    Raises:
        RequestRefused: There is none, or several.
    """
    found = [view for view in nodes if view.name == name] or [v for v in nodes if v.node.startswith(name)]
    if len(found) != 1:
        known = ", ".join(view.name for view in nodes)
        problem = "no node" if not found else "several nodes"
        raise RequestRefused(f"{problem} called {name!r}; there are: {known}")
    return found[0]


def group_name(job: str, slot: Slot) -> str:
    """Name of the placement group that holds ``slot`` for ``job``."""
    return f"raytide:{job}:{slot.node[-12:]}/{slot.index}"


def sweep(job: str, keep: Sequence[Slot]) -> None:
    """Release every slot that ``job`` holds besides ``keep`` (left over by a master that is gone)."""
    kept = {group_name(job, slot) for slot in keep}
    for entry in ray.util.placement_group_table().values():
        name = entry["name"]
        if name.startswith(f"raytide:{job}:") and name not in kept and entry["state"] != "REMOVED":
            remove_placement_group(group_of(entry["placement_group_id"]))


def reserve(slots: Sequence[Slot], resources: Mapping[str, float], job: str) -> dict[Slot, PlacementGroup]:
    """Reserve all ``slots``, or none.

    Raises:
        RequestRefused: One of them is not free (any more).
    """
    groups = {
        slot: placement_group(
            [dict(resources)],
            strategy="STRICT_PACK",
            name=group_name(job, slot),
            lifetime="detached",
            bundle_label_selector=[{"ray.io/node-id": slot.node}],
        )
        for slot in slots
    }
    deadline_s = time.monotonic() + RESERVE_TIMEOUT_S
    for slot, group in groups.items():
        if not group.wait(max(0.1, deadline_s - time.monotonic())):
            for other in groups.values():
                remove_placement_group(other)
            raise RequestRefused(f"slot {slot.index} of node {slot.node[:8]} is not free ({dict(resources)})")
    return groups


def release(group: PlacementGroup) -> None:
    """Give a slot back; kills what is left in it."""
    remove_placement_group(group)
