"""Whom a command about a job asks: the platform that has it, or the job's own master where it runs without one."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raytide.cli import cluster
from raytide.errors import RequestRefused

if TYPE_CHECKING:
    from raytide.actors.client import RayJobHandle
    from raytide.actors.platform import Platform
    from raytide.actors.scheduler.info import JobInfo


@dataclass(frozen=True)
class OfPlatform:
    """A job that the scheduler moves; whoever asks its master would be overruled."""

    platform: Platform
    job: str


@dataclass(frozen=True)
class OfItself:
    """A job that runs without a platform."""

    handle: RayJobHandle


@contextmanager
def owner(job: str | None) -> Iterator[OfPlatform | OfItself]:
    """Whom to ask about ``job``, or about the only one that has not ended.

    Raises:
        RequestRefused: There is none, or several.
    """
    with cluster.connected():
        platform = running_platform()
        if platform is None:
            from raytide.actors.client import find_job

            yield OfItself(find_job(job or cluster.only_job(cluster.views())))
        else:
            yield _of(platform, job)


def running_platform() -> Platform | None:
    """The platform of the connected cluster, in the name of the user's token; None if none runs."""
    from raytide.actors.names import has_scheduler
    from raytide.actors.platform import Platform
    from raytide.submission.local_token import local_token

    return Platform(local_token(os.environ, Path.home())) if has_scheduler() else None


def _of(platform: Platform, job: str | None) -> OfPlatform | OfItself:
    if job is None:
        return OfPlatform(platform, only(platform.jobs()))
    try:
        return OfPlatform(platform, platform.job(job).job)
    except RequestRefused:
        from raytide.actors.client import find_job, list_jobs

        if job not in list_jobs():
            raise
        return OfItself(find_job(job))  # it was started before the platform


def only(infos: Sequence[JobInfo]) -> str:
    """The name of the job that is meant when none is named.

    Raises:
        RequestRefused: There are none, or several.
    """
    if len(infos) == 1:
        return infos[0].job
    if not infos:
        raise RequestRefused("the platform has no job that has not ended: hand one in with `raytide submit`")
    raise RequestRefused(f"{len(infos)} jobs have not ended: name the one you mean ({names(infos)})")


def names(infos: Sequence[JobInfo]) -> str:
    """Some of them."""
    shown = ", ".join(info.job for info in infos[:8])
    return f"{shown}, ..." if len(infos) > 8 else shown
