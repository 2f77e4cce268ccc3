"""Views and logs of jobs that do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from raytide.actors.scheduler.info import JobInfo, PlatformInfo
from raytide.actors.views import Event, JobView, MemberView
from support import platform_info as platforms


def event(kind: str, time_s: float = 0.0, text: str = "", number: int = 0, **data: Any) -> Event:
    return Event(number, time_s, kind, text or kind, data)


def generation(time_s: float, *members: str, planned: bool = True, **data: Any) -> Event:
    costs = {"pause_s": 0.0, "bytes_moved": 0, "recovery_s": 0.0, "step": 10, **data}
    return event("generation", time_s, members=members, planned=planned, **costs)


def view(name: str = "digits", **changes: Any) -> JobView:
    values: dict[str, Any] = {
        "phase": "running",
        "step": 120,
        "epoch": 5,
        "world_size": 2,
        "generation": 3,
        "least": 1,
        "most": 4,
        "step_s": 0.05,
        "samples_per_s": 1280.0,
        "metrics": {"loss": 0.1234567, "accuracy": 0.99},
        "members": (
            MemberView("r0", 0, "aaaaaaaaaaaa", 0, "training epoch 5", 0.04, 4711),
            MemberView("r1", -1, "bbbbbbbbbbbb", 1, "", 0.0),
        ),
        "events": (),
        "checkpoint": "store/step-100",
        "error": "",
        "released": False,
    }
    return JobView(name=name, **{**values, **changes})


def job_info(job: str = "digits", **changes: Any) -> JobInfo:
    """A job of a platform: running on two slots, submitted at 1000 and started at 1010."""
    values: dict[str, Any] = {
        "state": "running",
        "most": 4,
        "count": 2,
        "gpus": 2,
        "nodes": (("node-a", 2),),
        "submitted_s": 1000.0,
        "first_start_s": 1010.0,
        "resizes": 1,
        "attained_gpu_s": 75.0,
        "step": 120,
        "epoch": 5,
        "samples_per_s": 1280.0,
        "story": ("1000.0 s: pending: submitted", "1010.0 s: running: 2 replicas\non node-a"),
    }
    return platforms.job_info(job, **{**values, **changes})


def waiting(job: str, position: int, reason: str, **changes: Any) -> JobInfo:
    """A job that waits."""
    nothing = {"state": "pending", "count": 0, "gpus": 0, "nodes": (), "first_start_s": None, "step": 0}
    return job_info(job, **{**nothing, "samples_per_s": 0.0, "position": position, "reason": reason, **changes})


def platform_info(jobs: Sequence[JobInfo], slots: int = 4, names: Sequence[str] = ("node-a", "node-b")) -> PlatformInfo:
    """A platform whose nodes hold what the jobs say."""
    nodes = tuple(platforms.node_info(name, slots, gpu_type="cpu", held=_held(name, jobs)) for name in names)
    return replace(platforms.platform_info(nodes, tuple(jobs), {"vision": 2}), tick_s=0.0012, slot={"CPU": 1.0})


def _held(node: str, jobs: Sequence[JobInfo]) -> tuple[tuple[str, int], ...]:
    return tuple((job.job, dict(job.nodes)[node]) for job in jobs if node in dict(job.nodes))
