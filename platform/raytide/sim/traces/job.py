"""A job as a trace records it: what was asked for, when, and how long it took."""

from __future__ import annotations

import math
from dataclasses import dataclass

from raytide.errors import ConfigError

DEFAULT_TENANT = "default"
"""Who submits the jobs of a trace that names no tenants."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace.

    Attributes:
        job_id: Its name, unique in the trace.
        tenant: Who submitted it.
        submit_s: When, in seconds on the trace's clock.
        gpus: How many GPUs it asked for; at least 1.
        duration_s: Seconds it runs on that many GPUs, above 0; None if the trace does not know.
        model: What it trains, in the trace's own words; empty if unknown.
        batch_size: Samples per step over all GPUs; 0 if unknown.
        iterations: Steps it makes, above 0; None if unknown.
        deadline_s: When it must be done, in seconds on the same clock as ``submit_s``; None if it has no deadline.

    Raises:
        ConfigError: A value is out of range; ``field`` names it (``TraceJob.gpus``).
    """

    job_id: str
    tenant: str
    submit_s: float
    gpus: int
    duration_s: float | None
    model: str = ""
    batch_size: int = 0
    iterations: float | None = None
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        _check_name("job_id", self.job_id)
        _check_name("tenant", self.tenant)
        _check_time("submit_s", self.submit_s)
        _check_count("gpus", self.gpus, 1)
        if self.duration_s is not None:
            _check_amount("duration_s", self.duration_s)
        if self.model:
            _check_name("model", self.model)
        if self.batch_size:
            _check_count("batch_size", self.batch_size, 0)
        if self.iterations is not None:
            _check_amount("iterations", self.iterations)
        if self.deadline_s is not None:
            self._check_deadline(self.deadline_s)

    @property
    def gpu_s(self) -> float | None:
        """GPU-seconds it holds at the requested size; None if the trace does not know."""
        return None if self.duration_s is None else self.gpus * self.duration_s

    def _check_deadline(self, deadline_s: float) -> None:
        _check_time("deadline_s", deadline_s)
        if deadline_s < self.submit_s:
            problem = f"{deadline_s:g} is before the submission at {self.submit_s:g}"
            raise _refuse("deadline_s", problem, "Count the deadline from the trace's start, not from the submission")


def _check_name(field: str, value: str) -> None:
    if not value or value != value.strip():
        raise _refuse(field, f"{value!r} is empty or has blanks around it", "Give a name")


def _check_time(field: str, value: float) -> None:
    if not 0 <= value < math.inf:
        problem = "is negative" if value < 0 else "is not finite"
        raise _refuse(field, f"{value} {problem}", "Give seconds, 0 or more")


def _check_amount(field: str, value: float) -> None:
    if not 0 < value < math.inf:
        problem = "is not above 0" if value <= 0 else "is not finite"
        raise _refuse(field, f"{value} {problem}", "Give more than 0, or leave the job out")


def _check_count(field: str, value: int, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise _refuse(field, f"{value!r} is not a whole number from {least} up", f"Give {least} or more")


def _refuse(field: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError(f"TraceJob.{field}", problem, remedy)
