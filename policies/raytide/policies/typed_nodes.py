"""Nodes by GPU type, while a policy decides which gang runs on which type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from raytide.core import Job, Placement, Shape, View
from raytide.policies.moves import Plan


class TypedNodes:
    """All slots of nodes that jobs may have, as if nobody held any.

    Args:
        view: The instant.

    Attributes:
        gpus: GPUs of each type in all.
    """

    def __init__(self, view: View) -> None:
        usable = {node.node: view.cluster.usable_on(node.node) for node in view.cluster.nodes}
        self._nodes = {node.node: node for node in view.cluster.nodes if usable[node.node]}
        self._view = view
        self._free = {name: usable[name] for name in self._nodes}
        self._pinned: set[str] = set()
        self.gpus: defaultdict[str, int] = defaultdict(int)
        for name, node in self._nodes.items():
            self.gpus[node.gpu_type] += usable[name]
        self._left = dict(self.gpus)

    def spread(self, gpus: int, gpu_type: str) -> int:
        """The fewest nodes of a type on which so many GPUs find room."""
        biggest = max(node.gpus for node in self._nodes.values() if node.gpu_type == gpu_type)
        return max(1, -(-gpus // biggest))

    def pin(self, job: Job) -> None:
        """This job stays where it is."""
        self._pinned.add(job.job)
        for node, count in self._view.cluster.placement(job.job).gpus:
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
        plan: dict[str, tuple[Shape, Placement]] = {}
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
