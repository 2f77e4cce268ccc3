"""From the slots a job holds to those it is granted: which to add, which replicas to take out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raytide.elastic.model import ReplicaId

Grant = Mapping[str, int]
"""Slots by node id."""


@dataclass(frozen=True)
class Change:
    """What a job has to do to fit its grant.

    Attributes:
        add: Slots to add, by node; no zeros.
        remove: Replicas to take out.
    """

    add: Mapping[str, int]
    remove: tuple[ReplicaId, ...]

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)


def change_to(grant: Grant, replicas: Sequence[tuple[ReplicaId, str]]) -> Change:
    """The change with the fewest moves; of the replicas on one node, the last ones go.

    Args:
        grant: What the job shall hold.
        replicas: Those it has, with their nodes, in rank order.
    """
    left = Counter(grant)
    remove: list[ReplicaId] = []
    for replica, node in replicas:
        if left[node] > 0:
            left[node] -= 1
        else:
            remove.append(replica)
    return Change({node: count for node, count in left.items() if count > 0}, tuple(remove))


def union(first: Grant, second: Grant) -> dict[str, int]:
    """The least that holds both: what a job may hold while it changes."""
    return dict(Counter(first) | Counter(second))
