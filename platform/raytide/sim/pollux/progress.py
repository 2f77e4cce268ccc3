"""A job's progress through its epochs, as a value: time passes by making a new one.

The rate is constant inside an epoch, so a continuous clock is exact. Pollux's own simulator (OSDI'21) goes in rounds
and ends epochs at whole seconds only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from raytide.core import Split, StepSample, split_batch
from raytide.sim.pollux.application import Application
from raytide.sim.pollux.step_time import Placement

_CLOCK_TOLERANCE_S = 1e-6  # sums of float seconds miss a boundary by less, and must still reach it


@dataclass(frozen=True)
class Running:
    """What a job trains with until something changes.

    Attributes:
        app: Its application.
        placement: Its GPUs on each node, in the order of its ranks; empty or all 0 if it holds none.
        batch: Its total batch.
    """

    app: Application
    placement: Placement
    batch: int

    @cached_property
    def holds_gpus(self) -> bool:
        """Whether it can progress at all."""
        return any(self.placement)

    def rate(self, epoch: int) -> float:
        """Progress per second in ``epoch`` (from 0), in iterations at the smallest batch; 0 without GPUs.

        It is Pollux's goodput over that batch; a larger batch gains more in later epochs.

        Raises:
            ConfigError: The batch is outside the limits or too small for the GPUs, or there is no such epoch.
            NotMeasuredError: The placement or its local batch is outside the measurements.
        """
        if not self.holds_gpus:
            return 0.0
        batch, seconds = self._iteration
        return self.app.gain(batch, epoch) / seconds

    @property
    def total_batch(self) -> int:
        """What rounding made of :attr:`batch`."""
        return self._iteration[0]

    @property
    def iteration_s(self) -> float:
        """Seconds of one iteration."""
        return self._iteration[1]

    def sample(self) -> StepSample:
        """The step as the job itself measures it."""
        split = self._split
        times = self.app.step_times.at(self.placement, split.atomic)
        return StepSample(sum(self.placement), len(self.placement), split.atomic, times.step_s, times.sync_s)

    @cached_property
    def _split(self) -> Split:
        return split_batch(self.app.limits, self.batch, sum(self.placement))

    @cached_property
    def _iteration(self) -> tuple[int, float]:
        return self._split.batch, iteration_time(self.app, self.placement, self._split)


@dataclass(frozen=True)
class JobProgress:
    """How far a job is.

    Attributes:
        epoch: The epoch it is in, from 0; the number of epochs once it is done.
        progress: What it has achieved, in iterations at the smallest batch.
        delay_s: Seconds it will still hold GPUs without progress.
        completed_s: When it was done; None before.
    """

    epoch: int = 0
    progress: float = 0.0
    delay_s: float = 0.0
    completed_s: float | None = None

    def delayed(self, delay_s: float) -> JobProgress:
        """The same job, just restarted: the delay is set, not added to what is left of an earlier one."""
        return replace(self, delay_s=delay_s) if delay_s != self.delay_s else self


def iteration_time(app: Application, placement: Placement, split: Split) -> float:
    """Seconds of one iteration: the passes that only accumulate skip the network.

    Raises:
        ConfigError: The placement is empty.
        NotMeasuredError: The placement or the atomic batch is outside the measurements.
    """
    step_s, sync_s = app.step_times.at(placement, split.atomic)
    return step_s + split.accumulation * (step_s - sync_s)


def time_to_completion(state: JobProgress, running: Running) -> float:
    """Seconds until the job is done if nothing changes; infinite without GPUs, 0 when done.

    Raises:
        ConfigError: As :meth:`Running.rate`.
        NotMeasuredError: As :meth:`Running.rate`.
    """
    if state.completed_s is not None:
        return 0.0
    if state.completed_s is not None:
        return 0.0
    if not running.holds_gpus:
        return math.inf
    first = _missing(state, running.app) / running.app.gain(running.total_batch, state.epoch)
    iterations = first + running.app.iterations_from(running.total_batch, state.epoch + 1)
    return state.delay_s + iterations * running.iteration_s


def advance(
    state: JobProgress, running: Running, start_s: float, seconds: float, *, whole_seconds: bool = False
) -> JobProgress:
    """Let time pass for a job.

    Args:
        state: The job at ``start_s``; without GPUs, or once it is done, it stays as it is.
        running: What it trains with during that time.
        start_s: When this begins, for the completion time.
        seconds: How long it lasts; a boundary up to a microsecond later counts as reached.
        whole_seconds: Round the time that (the rest of) an epoch takes to whole seconds, as Pollux's simulator
            does. An epoch shorter than half a second then takes none.

    Returns:
        The job at ``start_s + seconds``.

    Raises:
        ConfigError: As :meth:`Running.rate`.
        NotMeasuredError: As :meth:`Running.rate`.
    """
    if state.completed_s is not None or not running.holds_gpus:
        return state
    waited_s = min(state.delay_s, seconds)
    left_s, now_s = seconds - waited_s, start_s + waited_s
    state = state.delayed(state.delay_s - waited_s)
    while state.completed_s is None and state.delay_s == 0:
        speed = running.rate(state.epoch)
        needed_s = _missing(state, running.app) / speed
        if needed_s > left_s + _CLOCK_TOLERANCE_S:
            return replace(state, progress=state.progress + left_s * speed)
        passed_s = min(round(needed_s) if whole_seconds else needed_s, left_s)
        now_s += passed_s
        left_s -= passed_s
        state = _next_epoch(state, running.app, now_s)
    return state


def _missing(state: JobProgress, app: Application) -> float:
    return app.boundaries[state.epoch + 1] - state.progress


def _next_epoch(state: JobProgress, app: Application, now_s: float) -> JobProgress:
    epoch = state.epoch + 1
    completed_s = now_s if epoch == app.limits.epochs else None
    return JobProgress(epoch, app.boundaries[epoch], completed_s=completed_s)
