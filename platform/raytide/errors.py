"""The errors a user of raytide can meet; every one derives from :class:`RaytideError`.

Errors raised for bad input say what was wrong, where, and what to do. Internal mistakes of raytide
itself are ``AssertionError`` and never appear here.
"""

from __future__ import annotations

LOOP_RAISED = "the training loop raised on rank "
"""With the rank, the beginning of the error of a job that its own code ended."""


class RaytideError(Exception):
    """Base of every error that raytide raises on purpose."""


class ConfigError(RaytideError, ValueError):
    """A setting was refused before anything started.

    Args:
        field: The setting, as the user wrote it (``ScalingConfig.num_workers``).
        problem: What is wrong with its value.
        remedy: What to do instead.
    """

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        super().__init__(field, problem, remedy)
        self.field = field
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}. {self.remedy}"


class RequestRefused(RaytideError):
    """A running job cannot do what was asked (a rank that does not exist, no free slot, ...)."""


class AccessDenied(RaytideError):
    """A token is missing, unknown, or may not do what was asked."""


class JobFailed(RaytideError):
    """A job ended without success; the message tells the job, the rank and the cause."""


class LoopError(JobFailed):
    """The user's training loop raised: carries the rank and its traceback as text."""

    def __init__(self, job: str, rank: int, traceback_text: str) -> None:
        super().__init__(job, rank, traceback_text)
        self.job = job
        self.rank = rank
        self.traceback_text = traceback_text

    def __str__(self) -> str:
        return f"job {self.job}: {LOOP_RAISED}{self.rank}\n{self.traceback_text}"


class StateMismatch(RaytideError):
    """State does not fit the objects it is loaded into (a checkpoint of another model)."""
