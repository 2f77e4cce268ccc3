"""Slots drawn by lot: the baseline that every other placer has to beat."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from raytide.core import NOWHERE, Cluster, Job, Placement, Shape
from raytide.policies.placement.simple import grown, shrunk


class Random:
    """Any free slot with the same chance. The lot is a hash of the seed, the job, its new shape and the slot, so the
    same job in the same cluster is placed alike in every run, and no draw depends on those before.

    Args:
        seed: Other seeds, other placements.
    """

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def place(self, cluster: Cluster, job: Job, shape: Shape) -> Placement | None:
        """A placement out of what is free and what the job holds; None if there is none now."""
        have = cluster.placement(job.job)
        more = job.spec.gpus(shape) - have.total
        if more <= 0:
            return shrunk(have, -more) if shape else NOWHERE
        ticket = f"{self._seed}/{job.job}/{shape}"
        return grown(cluster, have, more, lambda free, _: _drawn(free, ticket))


def _drawn(cluster: Cluster, ticket: str) -> Iterator[tuple[str, int]]:
    """Free slots one by one, as drawn."""
    nodes = (node for free in cluster.free_counts() for _, node in cluster.nodes_with(free))
    slots = [(node, slot) for node in nodes for slot in range(cluster.free_on(node))]
    for node, _ in sorted(slots, key=lambda slot: _lot(ticket, *slot)):
        yield node, 1


def _lot(ticket: str, node: str, slot: int) -> bytes:
    return blake2b(f"{ticket}/{node}/{slot}".encode(), digest_size=8).digest()
