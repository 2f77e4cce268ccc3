"""What shall be done: the controller's output, carried out by the simulator or by the live scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from raytide.core.model import JobId, Placement, Shape


@dataclass(frozen=True, slots=True)
class Start:
    """Start a pending job, or resume a suspended one, on free slots.

    Attributes:
        resume: It has run before, and goes on from where it was suspended.
    """

    job: JobId
    shape: Shape
    placement: Placement
    resume: bool


@dataclass(frozen=True, slots=True)
class Scale:
    """Change the shape of a running job, or its place (the shape is then the one it has)."""

    job: JobId
    shape: Shape
    placement: Placement


@dataclass(frozen=True, slots=True)
class Suspend:
    """Save a job and give back its slots."""

    job: JobId
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End a job for good."""

    job: JobId
    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the owner that the job will not run, and why."""

    job: JobId
    reason: str


@dataclass(frozen=True, slots=True)
class Wake:
    """Give the controller a :class:`~raytide.core.events.Timer` at this time; replaces the one before."""

    at_s: float


Command: TypeAlias = Start | Scale | Suspend | Stop | Refuse | Wake
