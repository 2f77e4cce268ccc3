"""Platforms as they are told, made by hand."""

from __future__ import annotations

from typing import Any

from raytide.actors.scheduler.info import JobInfo, NodeInfo, PlatformInfo

_JOB: dict[str, Any] = {
    "reason": "",
    "position": 0,
    "priority": 0,
    "preemptible": True,
    "least": 1,
    "most": 8,
    "count": 0,
    "gpus": 0,
    "nodes": (),
    "submitted_s": 0.0,
    "first_start_s": None,
    "ended_s": None,
    "deadline_s": None,
    "resizes": 0,
    "suspensions": 0,
    "attained_gpu_s": 0.0,
    "work": None,
}


def job_info(job: str, tenant: str = "vision", state: str = "pending", **fields: Any) -> JobInfo:
    """A job; whatever is not named is that of one that was just handed in."""
    return JobInfo(job=job, tenant=tenant, state=state, **{**_JOB, **fields})


def node_info(name: str, slots: int = 4, **fields: Any) -> NodeInfo:
    """A node, empty and open."""
    return NodeInfo(**{"node": f"id-{name}", "name": name, "slots": slots, "gpu_type": "a100", **_EMPTY, **fields})


_EMPTY: dict[str, Any] = {"open": True, "taken": 0, "held": ()}


def platform_info(
    nodes: tuple[NodeInfo, ...] = (), jobs: tuple[JobInfo, ...] = (), usage: dict[str, int] | None = None
) -> PlatformInfo:
    """A platform."""
    return PlatformInfo("tide", "pack", 1, 0.001, nodes, jobs, usage or {})
