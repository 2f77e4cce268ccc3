"""Views and logs of jobs that do not exist."""

from __future__ import annotations

from typing import Any

from raytide.actors.views import Event, JobView, MemberView


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
