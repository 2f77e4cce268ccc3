"""Who holds which slots: the one place where GPUs are counted, with trials that can be taken back.

Nodes are indexed by how many free slots they have, so that a placer finds the fullest or the emptiest node without
walking through all of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from raytide.core.model import NOWHERE, JobId, Node, NodeId, Placement
from raytide.errors import RaytideError


class PlacementError(RaytideError):
    """A placement was refused: it names a node that is not there, or slots that are not free."""


@dataclass(slots=True)
class _Seat:
    """A node and what is free on it.

    Attributes:
        order: Breaks ties, in the order in which nodes joined.
        free: Slots that no job holds.
        open: New jobs may be placed on it.
        taken: Slots that somebody outside of the platform uses.
    """

    node: Node
    order: int
    free: int
    open: bool = True
    taken: int = 0

    @property
    def offered(self) -> int:
        """Slots that can be given out: nobody holds them, inside or outside of the platform."""
        return max(0, self.free - self.taken) if self.open else 0


class Cluster:
    """Nodes, and the jobs' placements on them.

    Attributes:
        total: Slots of all nodes.
        taken: Those of them that somebody outside of the platform uses.
        free: Those that can be given out.

    Between :meth:`checkpoint` and :meth:`rollback` or :meth:`commit`, changes are a trial.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._seats: dict[NodeId, _Seat] = {}
        self._held: dict[JobId, Placement] = {}
        self._by_free: dict[int, list[tuple[int, NodeId]]] = {}
        self._sizes: Counter[int] = Counter()
        self._joined = 0
        self._trials: list[list[tuple[JobId, Placement]]] = []
        self.total = 0
        self.taken = 0
        self.free = 0
        for node in nodes:
            self.add_node(node)

    # --- nodes -------------------------------------------------------------------------------

    @property
    def nodes(self) -> Iterator[Node]:
        """All nodes that are there, in the order in which they joined."""
        return (seat.node for seat in self._seats.values())

    def add_node(self, node: Node) -> None:
        """A node joined."""
        if node.node in self._seats:
            raise PlacementError(f"node {node.node} is there already")
        seat = _Seat(node, self._joined, node.gpus)
        self._joined += 1
        self._seats[node.node] = seat
        self._sizes[node.gpus] += 1
        self.total += node.gpus
        self._list(seat)

    def close_node(self, node: NodeId) -> None:
        """Place nothing new on a node that will go."""
        seat = self._seats[node]
        if seat.open:
            self._unlist(seat)
            seat.open = False

    def take(self, node: NodeId, slots: int) -> None:
        """So many slots of a node are used by somebody outside of the platform, in all."""
        seat = self._seats[node]
        taken = min(slots, seat.node.gpus)
        self.taken += taken - seat.taken
        if seat.open:
            self._unlist(seat)
            seat.taken = taken
            self._list(seat)
        else:
            seat.taken = taken

    def remove_node(self, node: NodeId) -> tuple[JobId, ...]:
        """A node is gone; returns the jobs that had slots on it, which lose all they had there."""
        assert not self._trials, "nodes do not go during a trial"
        seat = self._seats[node]
        hit = tuple(job for job, placement in self._held.items() if node in placement.nodes)
        for job in hit:
            left = tuple((name, count) for name, count in self._held[job].gpus if name != node)
            self._move(job, Placement(left))
        if seat.open:
            self._unlist(seat)
        del self._seats[node]
        self._sizes -= Counter([seat.node.gpus])
        self.total -= seat.node.gpus
        self.taken -= seat.taken
        return hit

    @property
    def largest_node_gpus(self) -> int:
        """GPUs of the largest node; 0 without nodes."""
        return max(self._sizes, default=0)

    def node(self, node: NodeId) -> Node:
        """The node of this id.

        Raises:
            PlacementError: There is none.
        """
        return self._seat(node).node

    def free_on(self, node: NodeId) -> int:
        """Slots on it that can be given out."""
        return self._seat(node).offered

    def is_open(self, node: NodeId) -> bool:
        """Whether new jobs may be placed on it."""
        return self._seat(node).open

    def taken_on(self, node: NodeId) -> int:
        """Slots on it that somebody outside of the platform uses."""
        return self._seat(node).taken

    def usable_on(self, node: NodeId) -> int:
        """Slots on it that jobs may have, free or held: none on one that will go."""
        seat = self._seat(node)
        return seat.node.gpus - seat.taken if seat.open else 0

    def nodes_with(self, free: int) -> list[tuple[int, NodeId]]:
        """Nodes with exactly this many free slots, as ``(order, node)`` in the order in which they joined."""
        return self._by_free.get(free, [])

    def free_counts(self) -> list[int]:
        """The numbers of free slots for which there are nodes, ascending; 0 left out."""
        return sorted(count for count, nodes in self._by_free.items() if count and nodes)

    # --- placements --------------------------------------------------------------------------

    @property
    def held(self) -> Mapping[JobId, Placement]:
        """Placements by job."""
        return self._held

    def placement(self, job: JobId) -> Placement:
        """Where a job is."""
        return self._held.get(job, NOWHERE)

    def assign(self, job: JobId, placement: Placement) -> None:
        """Give a job this placement instead of the one it has; :data:`NOWHERE` frees it.

        Raises:
            PlacementError: A node is not there, or has not enough free slots. Nothing is changed then.
        """
        problem = self.why_not(job, placement)
        if problem:
            raise PlacementError(f"job {job}: {problem}")
        before = self._held.get(job, NOWHERE)
        self._move(job, placement)
        if self._trials:
            self._trials[-1].append((job, before))

    def why_not(self, job: JobId, placement: Placement) -> str:
        """Why a job cannot have this placement now; empty if it can."""
        mine = dict(self._held.get(job, NOWHERE).gpus)
        for node, count in placement.gpus:
            seat = self._seats.get(node)
            if seat is None:
                return f"there is no node {node}"
            more = count - mine.get(node, 0)
            if count < 1 or (more > 0 and more > seat.offered):
                return f"{more} more slots of node {node}, where {seat.offered} are free"
        return ""

    def fits(self, placements: Mapping[JobId, Placement]) -> bool:
        """Whether jobs can have these placements together, in the place of those they have."""
        self.checkpoint()
        try:
            for job, placement in placements.items():
                self.assign(job, placement)
        except PlacementError:
            return False
        finally:
            self.rollback()
        return True

    def _move(self, job: JobId, placement: Placement) -> None:
        for node, count in self._held.pop(job, NOWHERE).gpus:
            self._change(node, count)
        for node, count in placement.gpus:
            self._change(node, -count)
        if placement:
            self._held[job] = placement

    def _change(self, node: NodeId, freed: int) -> None:
        seat = self._seats[node]
        if seat.open:
            self._unlist(seat)
            seat.free += freed
            self._list(seat)
        else:
            seat.free += freed

    def _list(self, seat: _Seat) -> None:
        insort(self._by_free.setdefault(seat.offered, []), (seat.order, seat.node.node))
        self.free += seat.offered

    def _unlist(self, seat: _Seat) -> None:
        listed = self._by_free[seat.offered]
        del listed[bisect_left(listed, (seat.order, seat.node.node))]
        self.free -= seat.offered

    def _seat(self, node: NodeId) -> _Seat:
        try:
            return self._seats[node]
        except KeyError:
            raise PlacementError(f"there is no node {node}") from None

    # --- trials ------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Begin a trial; trials nest."""
        self._trials.append([])

    def rollback(self) -> None:
        """Take back everything since the last checkpoint."""
        for job, placement in reversed(self._trials.pop()):
            self._move(job, placement)

    def commit(self) -> None:
        """Keep everything since the last checkpoint; an enclosing trial can still take it back."""
        kept = self._trials.pop()
        if self._trials:
            self._trials[-1].extend(kept)

    # --- invariants --------------------------------------------------------------------------

    def validate(self) -> None:
        """Free plus held is the total, on every node and in all."""
        held = dict.fromkeys(self._seats, 0)
        for placement in self._held.values():
            for node, count in placement.gpus:
                held[node] += count
        for name, seat in self._seats.items():
            assert seat.free >= 0, f"node {name} has {seat.free} free slots"
            assert seat.free + held[name] == seat.node.gpus, f"node {name}: {seat.free} free and {held[name]} held"
            listed = (seat.order, name) in self._by_free.get(seat.offered, [])
            assert listed == seat.open, f"node {name} is listed wrongly"
        assert self.free == sum(seat.offered for seat in self._seats.values())
        assert self.taken == sum(seat.taken for seat in self._seats.values())
        assert self._sizes == Counter(seat.node.gpus for seat in self._seats.values())
        assert self.total == sum(gpus * count for gpus, count in self._sizes.items())
