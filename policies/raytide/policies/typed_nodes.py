"""Nodes by GPU type, while a policy decides which gang runs on which type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from raytide.core import Job, Placement, Shape, View
from raytide.policies.moves import Plan


class TypedNodes:
    """All slots of nodes that are open, as if nobody held any.

    Args:
        view: The instant.

    Attributes:
        gpus: GPUs of each type in all.
    """

    def __init__(self, view: View) -> None:
        cluster = view.cluster
        listed = {node for free in (0, *cluster.free_counts()) for _, node in cluster.nodes_with(free)}
        self._nodes = {node.node: node for node in cluster.nodes if node.node in listed}
        self._view = view
        self._free = {name: node.gpus for name, node in self._nodes.items()}
        self._pinned: dict[str, tuple[Shape, Placement]] = {}
        self.gpus: defaultdict[str, int] = defaultdict(int)
        for node in self._nodes.values():
            self.gpus[node.gpu_type] += node.gpus
        self._left = dict(self.gpus)

    def spread(self, gpus: int, gpu_type: str) -> int:
        """The fewest nodes of a type on which so many GPUs find room."""
        biggest = max(node.gpus for node in self._nodes.values() if node.gpu_type == gpu_type)
        return max(1, -(-gpus // biggest))

    def pin(self, job: Job) -> None:
        """This job stays where it is."""
        placement = self._view.cluster.placement(job.job)
        self._pinned[job.job] = (job.shape, placement)
        for node, count in placement.gpus:
            if node in self._nodes:
                self._free[node] -= count
                self._left[self._nodes[node].gpu_type] -= count

    def pinned(self, job: Job) -> bool:
        """Whether it stays where it is."""
        return job.job in self._pinned

    def has_room(self, job: Job, shape: Shape, gpu_type: str) -> bool:
        """Whether so many GPUs of this type are left."""
        return job.spec.gpus(shape) <= self._left[gpu_type]

    def take(self, job: Job, shape: Shape, gpu_type: str) -> None:
        """Count them as given."""
        self._left[gpu_type] -= job.spec.gpus(shape)

    def places(self, chosen: Sequence[tuple[Job, Shape, str]]) -> Plan:
        """Exact slots: who is on the chosen type already stays, then the largest are placed first."""
        plan = dict(self._pinned)
        for job, shape, gpu_type in chosen:
            have = self._view.cluster.placement(job.job)
            if self._may_stay(have, job.spec.gpus(shape), gpu_type):
                plan[job.job] = (shape, have)
                self._occupy(have)
        for job, shape, gpu_type in sorted(chosen, key=lambda choice: -choice[0].spec.gpus(choice[1])):
            if job.job not in plan and (placement := self._packed(job, shape, gpu_type)) is not None:
                plan[job.job] = (shape, placement)
                self._occupy(placement)
        return plan

    def _may_stay(self, have: Placement, gpus: int, gpu_type: str) -> bool:
        return have.total == gpus and all(
            node in self._nodes and self._nodes[node].gpu_type == gpu_type and count <= self._free[node]
            for node, count in have.gpus
        )

    def _occupy(self, placement: Placement) -> None:
        for node, count in placement.gpus:
            self._free[node] -= count

    def _packed(self, job: Job, shape: Shape, gpu_type: str) -> Placement | None:
        """The fullest node that takes all of it; else the emptiest ones, each process whole."""
        names = [name for name, node in self._nodes.items() if node.gpu_type == gpu_type]
        free = {name: self._free[name] for name in names}
        gpus = job.spec.gpus(shape)
        if fitting := [name for name in names if free[name] >= gpus]:
            return Placement(((min(fitting, key=free.__getitem__), gpus),))
        counts: defaultdict[str, int] = defaultdict(int)
        for role in job.spec.roles:
            for _ in range(shape[role.name] if role.gpus else 0):
                node = max(names, key=free.__getitem__)
                node = next((used for used in counts if free[used] >= role.gpus), node)
                if free[node] < role.gpus:
                    return None
                free[node] -= role.gpus
                counts[node] += role.gpus
        return Placement(tuple(counts.items()))
