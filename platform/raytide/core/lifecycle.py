"""What can become of a job: one table of legal transitions, and the error for every other one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from raytide.errors import RaytideError


class JobState(StrEnum):
    """Where a job is in its life."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    RESIZING = "resizing"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"


S = JobState

HOLDING = frozenset({S.STARTING, S.RUNNING, S.RESIZING, S.SUSPENDING, S.STOPPING})
"""A job in one of these holds slots."""

WAITING = frozenset({S.PENDING, S.SUSPENDED})
"""A job in one of these holds nothing and wants to run."""

ENDED = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED, S.REFUSED})
"""Terminal: every job reaches exactly one of these."""

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    S.PENDING: frozenset(
        {
            S.STARTING,  # a policy gave it slots
            S.REFUSED,  # it can never run here, or an admission rule says no
            S.CANCELLED,  # its owner changed their mind
        }
    ),
    S.STARTING: frozenset(
        {
            S.RUNNING,  # its replicas are up
            S.SUSPENDING,  # preempted before it took a step
            S.STOPPING,  # cancelled while it came up
            S.PENDING,  # its node was lost or its start failed: it queues again
            S.SUCCEEDED,  # shorter than the news of its start
            S.FAILED,  # its start failed for good
        }
    ),
    S.RUNNING: frozenset(
        {
            S.RESIZING,  # a scale hook or a migration was called
            S.SUSPENDING,  # preempted: it saves and gives back its slots
            S.STOPPING,  # cancelled
            S.PENDING,  # lost all its replicas: it queues again and starts from its checkpoint
            S.SUCCEEDED,  # done
            S.FAILED,  # its own error, or too many losses
        }
    ),
    S.RESIZING: frozenset(
        {
            S.RUNNING,  # the new generation committed a step, or the resize was given up
            S.SUSPENDING,  # preempted meanwhile
            S.STOPPING,  # cancelled meanwhile
            S.PENDING,  # lost all its replicas
            S.SUCCEEDED,  # finished on the old shape before the switch
            S.FAILED,  # its own error
        }
    ),
    S.SUSPENDING: frozenset(
        {
            S.SUSPENDED,  # saved; its slots are free
            S.PENDING,  # lost while it saved: back to the last checkpoint
            S.SUCCEEDED,  # the last step came before the save
            S.FAILED,  # it could not be saved
        }
    ),
    S.SUSPENDED: frozenset(
        {
            S.STARTING,  # resumed
            S.CANCELLED,  # its owner changed their mind
        }
    ),
    S.STOPPING: frozenset(
        {
            S.CANCELLED,  # its slots are free
            S.SUCCEEDED,  # it finished first
            S.FAILED,  # it failed first
        }
    ),
    S.SUCCEEDED: frozenset(),
    S.FAILED: frozenset(),
    S.CANCELLED: frozenset(),
    S.REFUSED: frozenset(),
}


class IllegalTransition(RaytideError):
    """A job was told to become what it cannot become; carries its story."""

    def __init__(self, job: str, start: str, finish: str, story: Sequence[str] = ()) -> None:
        super().__init__(job, start, finish, tuple(story))
        self.job = job
        self.story = tuple(story)

    def __str__(self) -> str:
        job, start, finish, story = self.args
        told = "".join(f"\n  {line}" for line in story)
        return f"job {job} is {start} and cannot become {finish}. Its story:{told}"


def check_transition(job: str, start: JobState, finish: JobState, story: Callable[[], Sequence[str]]) -> None:
    """Raise :class:`IllegalTransition` unless the table allows it; ``story`` is asked only then."""
    if finish not in TRANSITIONS[start]:
        raise IllegalTransition(job, start, finish, story())
