"""``status`` and ``events``: looking at jobs."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from raytide.cli import cluster, render
from raytide.cli.options import JobArgument, JsonOption
from raytide.cli.output import Output, output
from raytide.cli.owners import running_platform

if TYPE_CHECKING:
    from raytide.actors.client import RayJobHandle

POLL_S = 0.5


def status(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """Show the jobs of the cluster, or one job with its replicas."""
    with output(as_json=as_json) as out, cluster.connected():
        platform = running_platform()
        if platform is not None and (job is None or job in {info.job for info in platform.jobs()}):
            from raytide.cli import jobs

            jobs.show_one(out, platform, job) if job else jobs.show_all(out, platform.jobs())
            return
        if job is None:
            views, names = cluster.views(), cluster.node_names()
            document = {"jobs": [render.view_document(view, names) for view in views]}
            out.show(document, render.jobs_table(views))
            return
        with cluster.job(job) as handle:
            view, names = handle.view(cluster.NO_EVENTS), cluster.node_names()
        out.show(
            render.view_document(view, names),
            render.jobs_table([view]),
            render.members_table(view.members, names),
            render.job_footer(view),
        )


def events(
    job: JobArgument = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document per event.")] = False,
) -> None:
    """Show what happened to a job: resizes with their cost, losses, checkpoints."""
    with output(as_json=as_json) as out, cluster.job(job) as handle:
        _show_events(out, handle, follow=follow)


def _show_events(out: Output, handle: RayJobHandle, *, follow: bool) -> None:
    from ray.exceptions import RayActorError

    from raytide.actors.progress import event_line

    seen, origin_s = 0, 0.0
    while True:
        try:
            view = handle.view(seen)
        except RayActorError:
            if seen:  # the shell that ran the job has seen its end, and took the master along
                return
            raise
        for event in view.events:
            origin_s = origin_s or event.time_s
            out.show_line(render.event_document(event), event_line(event, origin_s))
        seen += len(view.events)
        if view.ended or not follow:
            return
        time.sleep(POLL_S)
