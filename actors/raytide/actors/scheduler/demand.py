"""What the cluster would have to grow by: the least gangs of waiting jobs that do not fit into what is there. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raytide.core import Controller, JobSpec
from raytide.core.model import JobId, NodeId

PATIENCE_S = 2.0
"""Policies make room for a newcomer by resizing others; only a job that still waits then needs nodes."""


@dataclass(frozen=True)
class Demand:
    """What one job waits for.

    It is the whole gang, also where a part of it would find room: Ray sets it off against what is free, and buys the
    rest.

    Attributes:
        job: Its name.
        processes: Slots of each of its processes, all of one process on one node.
        avoid: Nodes that go, as far as the platform knows; what is free there is not meant.
    """

    job: JobId
    processes: tuple[int, ...]
    avoid: tuple[NodeId, ...] = ()


@dataclass(frozen=True)
class Needs:
    """What is needed at one instant.

    Attributes:
        demands: What waiting jobs need beyond what is there, in the order of their submission.
        live: All jobs that have not ended and do not rest.
    """

    demands: tuple[Demand, ...]
    live: frozenset[JobId]


def needs(controller: Controller, most_slots: int, now: float) -> Needs:
    """What is needed now; see :func:`demand`."""
    return Needs(tuple(demand(controller, most_slots, now)), frozenset(controller.table.live))


def demand(controller: Controller, most_slots: int, now: float, patience_s: float = PATIENCE_S) -> list[Demand]:
    """What waiting jobs need beyond what is there, in the order of their submission.

    What running jobs could use beside what they hold is not asked for, nor what a tenant may not have, nor what would
    make the cluster larger than it can be.

    Args:
        controller: The jobs, the nodes and the tenants.
        most_slots: Slots that the cluster can grow to.
        now: Seconds, on the controller's clock.
        patience_s: How long a job waits before nodes are asked for.
    """
    table = controller.table
    cluster = table.cluster
    room = {node.node: cluster.free_on(node.node) for node in cluster.nodes}
    closed = tuple(sorted(name for name in room if not cluster.is_open(name)))
    more = most_slots - sum(node.gpus for node in cluster.nodes if node.node not in closed)
    usage = Counter(table.usage)
    found: list[Demand] = []
    for job in table.queue():
        processes = gang(job.spec)
        if table.tenants.limiting(job.spec.tenant, usage, sum(processes)):
            continue
        missing, left = seated(processes, room)
        if missing > more:
            continue
        room, more = left, more - missing
        for tenant in table.tenants.path(job.spec.tenant):
            usage[tenant] += sum(processes)
        if missing and now - job.queued_s >= patience_s:
            found.append(Demand(job.job, processes, closed))
    return found


def gang(spec: JobSpec) -> tuple[int, ...]:
    """Slots of each process without which a job does not run, the largest first; processes without slots left out."""
    each = [role.gpus for role in spec.roles for _ in range(role.least) if role.gpus]
    return tuple(sorted(each, reverse=True))


def seated(processes: Sequence[int], room: Mapping[NodeId, int]) -> tuple[int, dict[NodeId, int]]:
    """Seat processes, each on the fullest node that has room for it.

    Returns:
        Slots of those that find no seat, and what is left of the room.
    """
    left = dict(room)
    missing = 0
    for slots in processes:
        fitting = [(free, node) for node, free in left.items() if free >= slots]
        if fitting:
            left[min(fitting)[1]] -= slots
        else:
            missing += slots
    return missing, left
