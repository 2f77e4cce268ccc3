"""The platform for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from raytide.cli.job_view import job_document

if TYPE_CHECKING:
    from raytide.actors.scheduler.info import NodeInfo, PlatformInfo


def node_document(node: NodeInfo) -> dict[str, Any]:
    """A node."""
    return {**asdict(node), "held": [{"job": job, "slots": slots} for job, slots in node.held]}


def platform_document(info: PlatformInfo) -> dict[str, Any]:
    """Everything at one instant."""
    return {
        "policy": info.policy,
        "placer": info.placer,
        "incarnation": info.incarnation,
        "tick_s": info.tick_s,
        "slot": dict(info.slot),
        "usage": dict(info.usage),
        "nodes": [node_document(node) for node in info.nodes],
        "jobs": [job_document(job) for job in info.jobs],
    }
