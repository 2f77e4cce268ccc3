"""What a job's status means to the controller."""

from __future__ import annotations

from raytide.actors.status import JobStatus
from raytide.core import Job, JobState
from raytide.core.events import CancelRequested, Event, Finished, Measured, Progressed, Stopped

_TRAINS = "running"
_ENDS = frozenset({"succeeded", "failed", "stopped"})


def events_of(job: Job, status: JobStatus) -> list[Event]:
    """The events that a status brings; none if it says nothing new.

    Args:
        job: As the controller knows it.
        status: As its master does.
    """
    if job.ended:
        return []
    if status.phase in _ENDS:
        return _end(job, status) if status.released and job.holding else []
    if status.phase != _TRAINS or not job.holding:
        return []
    found: list[Event] = []
    if job.state is JobState.RUNNING and status.samples_per_s > 0 and status.world_size == _processes(job):
        found.append(Measured(job.job, job.shape, status.samples_per_s))
    if status.done > 0:
        found.append(Progressed(job.job, status.done))
    return found


def _end(job: Job, status: JobStatus) -> list[Event]:
    if status.phase == "failed":
        return [Finished(job.job, status.error or "failed")]
    if status.phase == "succeeded":
        return [Finished(job.job)]
    asked: list[Event] = [] if job.state is JobState.STOPPING else [CancelRequested(job.job)]
    return [*asked, Stopped(job.job)]  # its owner stopped it without the scheduler


def _processes(job: Job) -> int:
    return sum(count for _, count in job.shape.counts)
