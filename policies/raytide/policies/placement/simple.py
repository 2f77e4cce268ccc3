"""Placers that look at numbers of free slots only, not at the network.

All of them keep what a growing job has and add to it, and take from a shrinking one where it has least; what a job
has on nodes that will go is given up as soon as there is room elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from raytide.core import NOWHERE, Cluster, Job, Placement, Shape

Order = Callable[[Cluster, int], Iterator[tuple[str, int]]]
"""Nodes with the slots to use of each, best first, for a number of GPUs."""


def grown(cluster: Cluster, have: Placement, more: int, order: Order) -> Placement | None:
    """``have`` and ``more`` GPUs in addition; None if there are not so many."""
    if more > cluster.free:
        return None
    counts = dict(have.gpus)
    for node, free in order(cluster, more):
        taken = min(free, more)
        counts[node] = counts.get(node, 0) + taken
        more -= taken
        if not more:
            return Placement(tuple(counts.items()))
    return None


def shrunk(have: Placement, fewer: int) -> Placement:
    """``have`` without ``fewer`` GPUs, from the nodes where it has least, so that whole nodes become free."""
    counts = dict(have.gpus)
    for node, count in sorted(have.gpus, key=lambda item: item[1]):
        taken = min(count, fewer)
        counts[node] -= taken
        fewer -= taken
    return Placement(tuple((node, count) for node, count in counts.items() if count))


class _ByOrder:
    """Adds slots in a fixed order of nodes."""

    def __init__(self, name: str, order: Order) -> None:
        self.name = name
        self._order = order

    def place(self, cluster: Cluster, job: Job, shape: Shape) -> Placement | None:
        """A placement out of what is free and what the job holds; None if there is none now."""
        if not shape:
            return NOWHERE
        have, gpus = cluster.placement(job.job), job.spec.gpus(shape)
        stays = tuple((node, count) for node, count in have.gpus if cluster.is_open(node))
        if len(stays) < len(have.gpus):  # nodes that will go are left, if there is room elsewhere
            moved = self._around(cluster, Placement(stays), gpus)
            if moved is not None:
                return moved
        return self._around(cluster, have, gpus)

    def _around(self, cluster: Cluster, have: Placement, gpus: int) -> Placement | None:
        more = gpus - have.total
        return grown(cluster, have, more, self._order) if more > 0 else shrunk(have, -more)


def _emptiest(cluster: Cluster, _count: int) -> Iterator[tuple[str, int]]:
    for free in reversed(cluster.free_counts()):
        for _, node in cluster.nodes_with(free):
            yield node, free


def _fullest(cluster: Cluster, _count: int) -> Iterator[tuple[str, int]]:
    for free in cluster.free_counts():
        for _, node in cluster.nodes_with(free):
            yield node, free


def _fewest(cluster: Cluster, count: int) -> Iterator[tuple[str, int]]:
    """The fullest node that takes all of it; else the emptiest one, and the rest likewise."""
    used: set[str] = set()
    while True:
        counts = cluster.free_counts()
        fits = [free for free in counts if free >= count]
        for free in (*fits, *reversed(counts)):
            node = next((name for _, name in cluster.nodes_with(free) if name not in used), None)
            if node is not None:
                break
        else:
            return
        used.add(node)
        count -= free
        yield node, free


def _best_fit(cluster: Cluster, count: int) -> Iterator[tuple[str, int]]:
    """The fullest node that takes all of it; else the fullest ones, whatever is free there."""
    fitting = next((free for free in cluster.free_counts() if free >= count), None)
    if fitting is None:
        yield from _fullest(cluster, count)
    else:
        yield cluster.nodes_with(fitting)[0][1], fitting


def _one_each(cluster: Cluster, count: int) -> Iterator[tuple[str, int]]:
    """One slot of each node in turn, the emptiest first."""
    nodes = list(_emptiest(cluster, count))
    for level in range(max((free for _, free in nodes), default=0)):
        for node, free in nodes:
            if free > level:
                yield node, 1


class Count(_ByOrder):
    """Numbers only: any free slots will do, as in replays that know no nodes."""

    def __init__(self) -> None:
        super().__init__("count", _fullest)


class Pack(_ByOrder):
    """Best fit: the fullest node that takes the whole job; one that no node takes fills up the fullest nodes, so that
    others stay whole.
    """

    def __init__(self) -> None:
        super().__init__("pack", _best_fit)


class Spread(_ByOrder):
    """As many nodes as possible."""

    def __init__(self) -> None:
        super().__init__("spread", _one_each)


class MostFree(_ByOrder):
    """The node with most free slots, again and again, the first in order on ties; as both replays of Pollux's
    baselines place.
    """

    def __init__(self) -> None:
        super().__init__("most_free", _emptiest)


class Consolidated(_ByOrder):
    """One node if any has room for the whole job, the fullest of them; else as few nodes as possible (spill)."""

    def __init__(self) -> None:
        super().__init__("consolidated", _fewest)
