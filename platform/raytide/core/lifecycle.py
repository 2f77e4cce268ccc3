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


_S = JobState

HOLDING = frozenset({_S.STARTING, _S.RUNNING, _S.RESIZING, _S.SUSPENDING, _S.STOPPING})
"""A job in one of these holds slots."""

WAITING = frozenset({_S.PENDING, _S.SUSPENDED})
"""A job in one of these holds nothing and wants to run."""

ENDED = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.REFUSED})
"""Terminal: every job reaches exactly one of these."""

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    _S.PENDING: frozenset(
        {
            _S.STARTING,  # a policy gave it slots
            _S.REFUSED,  # it can never run here, or an admission rule says no
            _S.CANCELLED,  # its owner changed their mind
        }
    ),
    _S.STARTING: frozenset(
        {
            _S.RUNNING,  # its replicas are up
            _S.SUSPENDING,  # preempted before it took a step
            _S.STOPPING,  # cancelled while it came up
            _S.PENDING,  # its node was lost or its start failed: it queues again
            _S.SUCCEEDED,  # shorter than the news of its start
            _S.FAILED,  # its start failed for good
        }
    ),
    _S.RUNNING: frozenset(
        {
            _S.RESIZING,  # a scale hook or a migration was called
            _S.SUSPENDING,  # preempted: it saves and gives back its slots
            _S.STOPPING,  # cancelled
            _S.PENDING,  # lost all its replicas: it queues again and starts from its checkpoint
            _S.SUCCEEDED,  # done
            _S.FAILED,  # its own error, or too many losses
        }
    ),
    _S.RESIZING: frozenset(
        {
            _S.RUNNING,  # the new generation committed a step, or the resize was given up
            _S.SUSPENDING,  # preempted meanwhile
            _S.STOPPING,  # cancelled meanwhile
            _S.PENDING,  # lost all its replicas
            _S.SUCCEEDED,  # finished on the old shape before the switch
            _S.FAILED,  # its own error
        }
    ),
    _S.SUSPENDING: frozenset(
        {
            _S.SUSPENDED,  # saved; its slots are free
            _S.RUNNING,  # it could not be saved now, and trains on
            _S.PENDING,  # lost while it saved: back to the last checkpoint
            _S.SUCCEEDED,  # the last step came before the save
            _S.FAILED,  # its own error came first
        }
    ),
    _S.SUSPENDED: frozenset(
        {
            _S.STARTING,  # resumed
            _S.CANCELLED,  # its owner changed their mind
        }
    ),
    _S.STOPPING: frozenset(
        {
            _S.CANCELLED,  # its slots are free
            _S.SUCCEEDED,  # it finished first
            _S.FAILED,  # it failed first
        }
    ),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.REFUSED: frozenset(),
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
