"""How a scheduler begins: with what the one before has written, and with the nodes that are there now."""

from __future__ import annotations

from collections.abc import Sequence

from raytide.core import JobState, Node, TenantTree
from raytide.core.commands import Command, Scale, Start, Stop, Suspend
from raytide.core.events import Event, NodeJoined, NodeLost, Restored, TenantsChanged
from raytide.state import JobRow, Saved


def first_events(saved: Saved, present: Sequence[Node], tenants: TenantTree) -> list[Event]:
    """The events of a scheduler's first round: as it was, and then what has changed meanwhile.

    Args:
        saved: What the one before has written.
        present: Nodes that are there now.
        tenants: Quotas.
    """
    known = {node.node: node for node in saved.nodes}
    there = {node.node: node for node in present}
    before: list[Event] = [TenantsChanged(tenants), *(NodeJoined(node) for node in saved.nodes)]
    jobs = [Restored(row.spec, row.past) for row, _ in saved.jobs]
    gone = [NodeLost(name) for name in known if name not in there]
    new = [NodeJoined(node) for name, node in there.items() if name not in known]
    return [*before, *jobs, *gone, *new]


def open_commands(saved: Saved) -> list[tuple[Command, str]]:
    """What the scheduler before was doing, with the ids it gave; to be said again, which changes nothing twice."""
    found = [(_command(row), row.request) for row, _ in saved.jobs if row.request]
    return [(command, request) for command, request in found if command is not None]


def _command(row: JobRow) -> Command | None:
    job, past = row.spec.job, row.past
    match past.state:
        case JobState.STARTING:
            return Start(job, past.shape, past.placement, resume=past.attained_gpu_s > 0)
        case JobState.RESIZING if past.target is not None:
            return Scale(job, past.shape, past.target)
        case JobState.SUSPENDING:
            return Suspend(job, past.reason)
        case JobState.STOPPING:
            return Stop(job, past.reason)
    return None
