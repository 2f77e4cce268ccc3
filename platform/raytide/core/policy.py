"""What a policy and a placer are: decisions as values, from a view that cannot be changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from raytide.core.cluster import Cluster
from raytide.core.job import Job
from raytide.core.model import JobId, Placement, Shape
from raytide.core.view import View
from raytide.errors import ConfigError, RaytideError


@dataclass(frozen=True, slots=True)
class EventDriven:
    """Decide whenever something happened, but not before ``min_gap_s`` after the last decision."""

    min_gap_s: float = 0.0

    def __post_init__(self) -> None:
        if self.min_gap_s < 0:
            raise ConfigError("EventDriven.min_gap_s", f"{self.min_gap_s} is negative", "Give 0 or more seconds")


@dataclass(frozen=True, slots=True)
class Rounds:
    """Decide every ``period_s``; between rounds events are recorded and freed slots stay idle."""

    period_s: float

    def __post_init__(self) -> None:
        if not self.period_s > 0:
            raise ConfigError("Rounds.period_s", f"{self.period_s} is not positive", "Give seconds above 0")


Clock: TypeAlias = EventDriven | Rounds


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy wants.

    Attributes:
        shapes: New shapes of jobs, in the order in which they are placed; the empty shape suspends a running
            job. A job that is left out keeps what it has.
        reasons: Why a job waits, shrinks or is preempted, in words.
        refused: Jobs that shall not run at all, with the reason.
        placements: Exact places of some of ``shapes``, from a policy that decides both.
        wake_at_s: Decide again at this time, even if nothing happens until then.
    """

    shapes: Mapping[JobId, Shape] = field(default_factory=dict)
    reasons: Mapping[JobId, str] = field(default_factory=dict)
    refused: Mapping[JobId, str] = field(default_factory=dict)
    placements: Mapping[JobId, Placement] = field(default_factory=dict)
    wake_at_s: float | None = None


class Policy(Protocol):
    """Decides how many slots each job has.

    A policy may keep what it learned about jobs (queues, demotions); it learns from the view only, so that the
    same events lead to the same decisions. It never looks at a clock and draws no unseeded random numbers.
    """

    @property
    def name(self) -> str:
        """By which people choose it."""
        ...

    @property
    def clock(self) -> Clock:
        """When it decides."""
        ...

    def decide(self, view: View) -> Decision:
        """One round."""
        ...

    def why_waiting(self, view: View, job: Job) -> str:
        """Why a job waits, for people who ask; called outside of rounds."""
        ...


class Placer(Protocol):
    """Decides where a job's slots are."""

    @property
    def name(self) -> str:
        """By which people choose it."""
        ...

    def place(self, cluster: Cluster, job: Job, shape: Shape) -> Placement | None:
        """A placement of ``shape`` out of what is free and what the job holds; None if there is none now."""
        ...


class PolicyError(RaytideError):
    """A policy decided what it may not: a shape outside of the job's bounds, more than there is, ..."""

    def __init__(self, policy: str, job: JobId, problem: str) -> None:
        super().__init__(policy, job, problem)

    def __str__(self) -> str:
        policy, job, problem = self.args
        return f"policy {policy}, job {job}: {problem}. This is a defect of the policy; please report it"
