"""What a master shows of its job: plain values for progress bars, command lines and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One entry of a job's log.

    Attributes:
        number: Counts from 0; ask for what came after it.
        time_s: Seconds since the epoch.
    """

    number: int
    time_s: float
    kind: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MemberView:
    """One replica, as shown to people. ``rank`` is -1 for one that is not a member, ``pid`` 0 while it comes up."""

    replica: str
    rank: int
    node: str
    slot: int
    place: str
    step_busy_s: float
    pid: int = 0


@dataclass(frozen=True)
class JobView:
    """A job, as shown to people.

    Attributes:
        events: The log from the number asked for.
        step_s: From one applied step to the next, over the last ones.
        samples_per_s: Of the whole job, over the same steps.
        released: The job is over and has given back every slot.
    """

    name: str
    phase: str
    step: int
    epoch: int
    world_size: int
    generation: int
    least: int
    most: int
    step_s: float
    samples_per_s: float
    metrics: Mapping[str, float]
    members: tuple[MemberView, ...]
    events: tuple[Event, ...]
    checkpoint: str
    error: str
    released: bool

    @property
    def ended(self) -> bool:
        """Whether the job is over."""
        return self.phase in ("succeeded", "failed", "stopped")


@dataclass(frozen=True)
class Profile:
    """Throughput at one replica count, from :meth:`JobHandle.profile`."""

    world_size: int
    step_s: float
    samples_per_s: float
    steps: int


def metrics_text(metrics: Mapping[str, Any]) -> str:
    """``loss 0.0123  accuracy 0.99``."""
    return "  ".join(f"{k} {v:.4g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in metrics.items())
