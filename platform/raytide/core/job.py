"""The controller's record of one job: its state, what it holds, what it has had, and its story."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from raytide.core.goodput import Training
from raytide.core.lifecycle import ENDED, HOLDING, WAITING, JobState, check_transition
from raytide.core.model import NOTHING, NOWHERE, JobSpec, Placement, Shape
from raytide.core.past import Past

if TYPE_CHECKING:
    from raytide.core.events import BoundsChanged

STORY_LINES = 64


class Job:
    """One job, as the controller knows it. Policies read it; only the controller changes it.

    Attributes:
        spec: What was submitted.
        state: Where it is in its life.
        shape: What it holds, or is becoming.
        gpus: GPUs of that shape.
        requested: The shape that was asked for.
        requested_gpus: GPUs of that one.
        first_start_s: When it was first given slots; None before.
        queued_s: Since when it waits; of use while it waits.
        resizes: How often its shape was changed while it ran.
        suspensions: How often it was preempted.
        held: Its owner has suspended it, and nobody else resumes it.
        bounds_to_come: An event with other bounds, which it gets when what is going on with it is done.
        measured: Samples per second at each shape it has run with.
        training: What it reported of its training, if its batch size is free.
    """

    __slots__ = (
        "_attained_gpu_s",
        "_changed_s",
        "_done",
        "_rate",
        "_run_s",
        "_story",
        "_told",
        "bounds_to_come",
        "ended_s",
        "first_start_s",
        "gpus",
        "held",
        "measured",
        "order",
        "queued_s",
        "reason",
        "requested",
        "requested_gpus",
        "resizes",
        "shape",
        "spec",
        "state",
        "suspensions",
        "training",
    )

    def __init__(self, spec: JobSpec, order: int) -> None:
        self.spec = spec
        self.order = order
        self.state = JobState.PENDING
        self.shape: Shape = NOTHING
        self.gpus = 0
        self.requested = spec.requested_shape
        self.requested_gpus = spec.gpus(self.requested)
        self.first_start_s: float | None = None
        self.ended_s: float | None = None
        self.queued_s = spec.submitted_s
        self.reason = ""
        self.resizes = 0
        self.suspensions = 0
        self.held = False
        self.bounds_to_come: BoundsChanged | None = None
        self.measured: dict[Shape, float] = {}
        self.training = Training()
        self._attained_gpu_s = 0.0
        self._run_s = 0.0
        self._done = 0.0
        self._rate = 0.0
        self._changed_s = spec.submitted_s
        self._told: tuple[str, ...] = ()
        self._story: list[tuple[float, JobState, str]] = [(spec.submitted_s, JobState.PENDING, "submitted")]

    @property
    def job(self) -> str:
        """Its id."""
        return self.spec.job

    @property
    def seniority(self) -> tuple[float, int]:
        """Orders jobs by submission, those of one instant as they came."""
        return (self.spec.submitted_s, self.order)

    @property
    def waiting(self) -> bool:
        """It holds nothing and wants to run."""
        return self.state in WAITING and not self.held

    @property
    def resting(self) -> bool:
        """It holds nothing, and its owner wants it so."""
        return self.state in WAITING and self.held

    @property
    def holding(self) -> bool:
        """It holds slots."""
        return self.state in HOLDING

    @property
    def ended(self) -> bool:
        """It is over."""
        return self.state in ENDED

    def attained_gpu_s(self, now: float) -> float:
        """GPU seconds it has held up to now, whether it made progress in them or not."""
        return self._attained_gpu_s + self.gpus * (now - self._changed_s)

    def run_s(self, now: float) -> float:
        """Seconds in which it held anything."""
        return self._run_s + ((now - self._changed_s) if self.gpus else 0.0)

    def work_left(self, now: float) -> float:
        """Declared work less what it has done, as far as reports and speeds tell; infinite if none was declared."""
        if self.spec.work is None:
            return math.inf
        return max(0.0, self.spec.work - self._done - self._rate * (now - self._changed_s))

    def story(self) -> tuple[str, ...]:
        """What happened to it, a line each, the latest last."""
        return (*self._told, *(f"{at:.1f} s: {state}: {why}" for at, state, why in self._story))

    def past(self, now: float, placement: Placement = NOWHERE) -> Past:
        """What it has behind it, with the slots that it holds."""
        return Past(
            at_s=now,
            state=self.state,
            reason=self.reason,
            shape=self.shape,
            placement=placement,
            first_start_s=self.first_start_s,
            queued_s=self.queued_s,
            ended_s=self.ended_s,
            attained_gpu_s=self.attained_gpu_s(now),
            run_s=self.run_s(now),
            done=self._done + self._rate * (now - self._changed_s),
            resizes=self.resizes,
            suspensions=self.suspensions,
            measured=tuple(self.measured.items()),
            held=self.held,
            story=self.story(),
        )

    # --- changes, for the controller ---------------------------------------------------------

    def become(self, now: float, state: JobState, why: str) -> None:
        """Change its state.

        Raises:
            IllegalTransition: The table of transitions has no such edge.
        """
        check_transition(self.job, self.state, state, self.story)
        self.state = state
        self.reason = why
        if len(self._story) == STORY_LINES:
            del self._story[1]
        self._told = self._told[-STORY_LINES:]
        self._story.append((now, state, why))

    def restore(self, past: Past) -> None:
        """Be what it was when a scheduler before this one wrote it down."""
        self.state, self.reason = past.state, past.reason
        self.first_start_s, self.queued_s, self.ended_s = past.first_start_s, past.queued_s, past.ended_s
        self.resizes, self.suspensions, self.held = past.resizes, past.suspensions, past.held
        self.measured = dict(past.measured)
        self.shape, self.gpus = past.shape, self.spec.gpus(past.shape)
        self._attained_gpu_s, self._run_s, self._done = past.attained_gpu_s, past.run_s, past.done
        self._changed_s = past.at_s
        self._told, self._story = past.story, []

    def bound(self, spec: JobSpec) -> None:
        """Have other bounds from now on."""
        self.spec = spec
        self.requested = spec.requested_shape
        self.requested_gpus = spec.gpus(self.requested)

    def hold(self, now: float, shape: Shape, rate: float = 0.0) -> None:
        """Hold this shape from now on, doing ``rate`` work per second."""
        self._account(now)
        self._rate = rate
        if self.gpus and not shape:
            self.queued_s = now
        self.shape = shape
        self.gpus = self.spec.gpus(shape)
        if self.first_start_s is None and shape:
            self.first_start_s = now

    def progressed(self, now: float, done: float) -> None:
        """It reported how much of its work is done."""
        self._account(now)
        self._done = done

    def trained(self, now: float, training: Training) -> None:
        """It reported how it trains; work is counted in epochs."""
        known = self.training
        for sample in training.samples:
            known = known.with_sample(sample)
        self.training = replace(training, samples=known.samples)
        self.progressed(now, training.epochs)

    def _account(self, now: float) -> None:
        self._attained_gpu_s = self.attained_gpu_s(now)
        self._run_s = self.run_s(now)
        self._done += self._rate * (now - self._changed_s)
        self._changed_s = now
