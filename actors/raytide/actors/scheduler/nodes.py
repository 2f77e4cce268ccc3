"""The cluster's nodes as the controller sees them: what joined, drains, is gone, or is used by others."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from raytide.actors.names import DEMAND_PREFIX
from raytide.actors.slots import slots_per_node
from raytide.actors.untyped import draining_nodes, free_resources, nodes
from raytide.core import Node
from raytide.core.events import Event, NodeDraining, NodeJoined, NodeLost, NodeTaken

LOOK_S = 0.25
LOOKS = 4
"""Slots count as used by others when they were in so many looks: Ray's figures are a moment old."""

LABELS = {"raytide.io/rack": "rack", "raytide.io/zone": "domain", "raytide.io/market": "market"}
"""Labels of Ray's nodes, and what they are called in the platform."""


@dataclass(frozen=True)
class Seen:
    """One look at the cluster.

    Attributes:
        nodes: Those with slots, by id.
        draining: Ids of those that will go.
        taken: Slots by node that somebody outside of the platform holds.
    """

    nodes: Mapping[str, Node]
    draining: frozenset[str] = frozenset()
    taken: Mapping[str, int] = field(default_factory=dict)


def changes(before: Seen, now: Seen) -> list[Event]:
    """What happened between two looks."""
    lost = [NodeLost(name) for name in before.nodes if name not in now.nodes]
    joined = [NodeJoined(node) for name, node in now.nodes.items() if name not in before.nodes]
    draining = [NodeDraining(name) for name in sorted(now.draining - before.draining) if name in now.nodes]
    taken = [
        NodeTaken(name, now.taken.get(name, 0))
        for name in now.nodes
        if now.taken.get(name, 0) != before.taken.get(name, 0)
    ]
    return [*lost, *joined, *draining, *taken]


class Cluster:
    """Looks at the connected Ray cluster.

    Args:
        slot: Ray resources of one slot.
        confined: Slots by node of jobs that place their own workers, and so hold no group of the platform.
    """

    def __init__(self, slot: Mapping[str, float], confined: Callable[[], Mapping[str, int]]) -> None:
        self._slot = slot
        self._confined = confined
        self._looks: deque[Mapping[str, int]] = deque(maxlen=LOOKS)

    def look(self) -> Seen:
        """The cluster now."""
        alive = [entry for entry in nodes() if entry["Alive"]]
        present = {entry["NodeID"]: node for entry in alive if (node := self._node(entry)) is not None}
        self._looks.append(self._taken(present))
        steady = {name: min(look.get(name, 0) for look in self._looks) for name in present}
        taken = steady if len(self._looks) == LOOKS else {}
        return Seen(present, frozenset(draining_nodes()), taken)

    def _node(self, entry: Mapping[str, Any]) -> Node | None:
        resources, labels = entry["Resources"], entry["Labels"]
        slots = slots_per_node(self._slot, resources)
        if not slots:
            return None
        name = str(entry["NodeID"])
        known = {ours: labels[theirs] for theirs, ours in LABELS.items() if theirs in labels}
        known["name"] = labels.get("raytide.node", name[:8])
        gpu_type = labels.get("ray.io/accelerator-type", next(iter(self._slot)).lower())
        return Node(name, slots, gpu_type, known)

    def _taken(self, present: Mapping[str, Node]) -> Mapping[str, int]:
        """Slots that are not free, less those of the platform."""
        free, ours = free_resources(), Counter(self._confined())
        for group in ray.util.placement_group_table().values():
            if group["name"].startswith(("raytide:", DEMAND_PREFIX)) and group["state"] == "CREATED":
                for index, node in group["bundles_to_node_id"].items():
                    ours[node] += slots_per_node(self._slot, group["bundles"][index])
        return {
            name: max(0, seen.gpus - slots_per_node(self._slot, free[name]) - ours[name])
            for name, seen in present.items()
            if name in free
        }


class NodeWatch:
    """Tells what happens to the cluster's nodes.

    Args:
        look: Looks at it.
        before: What is known already.
        tell: Takes the events.
    """

    def __init__(self, look: Callable[[], Seen], before: Seen, tell: Callable[[Sequence[Event]], None]) -> None:
        self._look = look
        self._seen = before
        self._tell = tell
        self._poked = threading.Event()

    def poke(self) -> None:
        """Something has happened: look now."""
        self._poked.set()

    def run(self) -> None:
        """Watch for ever; for a thread of its own."""
        while True:
            self.step()
            self._poked.wait(LOOK_S)
            self._poked.clear()

    def step(self) -> None:
        """Look once."""
        now = self._look()
        events = changes(self._seen, now)
        self._seen = now
        if events:
            self._tell(events)
