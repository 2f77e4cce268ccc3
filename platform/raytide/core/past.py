"""What a job has behind it, as a value: what a restarted scheduler needs to go on where the one before was."""

from __future__ import annotations

from dataclasses import dataclass

from raytide.core.lifecycle import JobState
from raytide.core.model import NOTHING, NOWHERE, Placement, Shape


@dataclass(frozen=True, slots=True)
class Past:
    """A job at one instant.

    Attributes:
        at_s: The instant, on the clock of the controller.
        state: Where it is in its life.
        reason: Why.
        shape: What it holds, or is becoming.
        placement: The slots it holds; while it is being resized, the old ones and the new ones.
        before: The shape and placement to go back to if the resize fails; None if it is not being resized.
        target: Where it will be after the resize; None likewise.
        first_start_s: When it was first given slots; None before.
        queued_s: Since when it waits; of use while it waits.
        ended_s: When it ended; None before.
        attained_gpu_s: GPU seconds it has held.
        run_s: Seconds in which it held anything.
        done: Work done.
        resizes: How often its shape was changed while it ran.
        suspensions: How often it was preempted.
        measured: Samples per second at each shape it has run with.
        held: Its owner has suspended it, and nobody else resumes it.
        story: What happened to it, a line each, the latest last.
    """

    at_s: float
    state: JobState = JobState.PENDING
    reason: str = ""
    shape: Shape = NOTHING
    placement: Placement = NOWHERE
    before: tuple[Shape, Placement] | None = None
    target: Placement | None = None
    first_start_s: float | None = None
    queued_s: float = 0.0
    ended_s: float | None = None
    attained_gpu_s: float = 0.0
    run_s: float = 0.0
    done: float = 0.0
    resizes: int = 0
    suspensions: int = 0
    measured: tuple[tuple[Shape, float], ...] = ()
    held: bool = False
    story: tuple[str, ...] = ()
