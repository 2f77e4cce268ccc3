"""What happens to a job, from its scheduler and its master, in the order of time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import fsspec
from ray.exceptions import RayError
from rich.text import Text

from raytide.actors.client import find_job
from raytide.actors.progress import describe_cost
from raytide.cli.clock import clock, entry
from raytide.cli.cluster import NO_EVENTS
from raytide.cli.job_view import first_line, story_line
from raytide.cli.render import event_document
from raytide.errors import RaytideError, RequestRefused

if TYPE_CHECKING:
    from raytide.actors.platform import Platform
    from raytide.actors.views import Event, JobView

POLL_S = 0.5
_QUIET = frozenset({"request", "fence"})

Line = tuple[dict[str, Any], Text]


def view_of(job: str, since: int = NO_EVENTS) -> JobView | None:
    """A job as its master shows it; None if it has none now."""
    try:
        return find_job(job).view(since)
    except (RayError, RaytideError):
        return None


def happened(platform: Platform, job: str, *, follow: bool) -> Iterator[Line]:
    """What happened to a job; with ``follow`` until it has ended."""
    told: set[str] = set()
    seen = 0
    while True:
        info = platform.job(job)
        view = view_of(job, seen)
        events = () if view is None else view.events
        seen += len(events)
        now_s = time.time()
        lines = [(entry(line)[0], _scheduler(line, now_s)) for line in info.story if line not in told]
        told.update(info.story)
        lines += [(event.time_s, _master(event, now_s)) for event in events if event.kind not in _QUIET]
        yield from (line for _, line in sorted(lines, key=lambda pair: pair[0]))
        if info.ended or not follow:
            return
        time.sleep(POLL_S)


def printed(platform: Platform, job: str, rank: int, *, follow: bool) -> Iterator[str]:
    """What a process of a rigid job printed, line by line.

    Raises:
        RequestRefused: There is no such file.
    """
    storage, at = platform.job(job).storage, 0
    while True:
        ended = platform.job(job).ended
        text = _read(f"{storage.rstrip('/')}/logs/rank-{rank}.log")
        if text is None and not follow:
            raise RequestRefused(f"job {job} has written no log of rank {rank}")
        new = (text or "")[at:]
        whole = new if ended or not follow else new[: new.rfind("\n") + 1]
        yield from whole.splitlines()
        at += len(whole)
        if ended or not follow:
            return
        time.sleep(POLL_S)


def _read(path: str) -> str | None:
    try:
        with fsspec.open(path, "r", errors="replace") as file:
            return str(file.read())
    except OSError:
        return None


def _scheduler(line: str, now_s: float) -> Line:
    at_s, state, why = entry(line)
    return {"time_s": at_s, "source": "scheduler", "state": state, "text": why}, story_line(line, now_s)


def _master(event: Event, now_s: float) -> Line:
    costs = describe_cost(event.data)
    shown = Text.assemble(
        (f"{clock(event.time_s, now_s)}  ", "dim"),
        (f"{'job':<10} ", "bold"),
        first_line(event.text) or event.kind,
        (f"  ({costs})" if costs else "", "dim"),
    )
    return {"source": "job", **event_document(event)}, shown
