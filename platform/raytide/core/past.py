"""What has become of a job so far, as a value: what is kept of it while no controller runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from raytide.core.lifecycle import JobState
from raytide.core.model import NOTHING, NOWHERE, Placement, Shape


@dataclass(frozen=True, slots=True)
class Past:
    """Everything a controller has to know of a job besides its spec to go on with it.

    ``Past(at_s=now)`` is that of a job just submitted. Times are on the clock of the controller.

    Attributes:
        at_s: The instant that all of this describes; what is counted is counted up to it.
        state: Where it was in its life.
        reason: Why, in words.
        shape: What it held, or was becoming.
        placement: Where it held slots; while it was resized, both where it was and where it went.
        before: While it was resized, the shape and the place that it has again if the resize fails; None otherwise.
        target: While it was resized, where it went; None otherwise.
        first_start_s: When it was first given slots; None before.
        queued_s: Since when it waits, of use while it waits; :attr:`at_s` unless given.
        ended_s: When it ended; None before.
        attained_gpu_s: GPU seconds it had held.
        run_s: Seconds in which it had held anything.
        done: Work done, in the unit of :attr:`~raytide.core.model.JobSpec.work`.
        resizes: How often its shape was changed while it ran.
        suspensions: How often it was suspended.
        measured: Samples per second at each shape it has run with.
        held: Its owner wants it to wait until they resume it.
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
    queued_s: float = math.nan
    ended_s: float | None = None
    attained_gpu_s: float = 0.0
    run_s: float = 0.0
    done: float = 0.0
    resizes: int = 0
    suspensions: int = 0
    measured: tuple[tuple[Shape, float], ...] = ()
    held: bool = False
    story: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if math.isnan(self.queued_s):
            object.__setattr__(self, "queued_s", self.at_s)
