"""``ls``, ``show`` and ``logs``: looking at jobs of the platform."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from raytide.cli import cluster, job_view
from raytide.cli.options import JobArgument, JsonOption
from raytide.cli.output import EXIT_FAILED, Output, output
from raytide.cli.owners import only

if TYPE_CHECKING:
    from raytide.actors.platform import Platform
    from raytide.actors.scheduler.info import JobInfo


def ls(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    ended: Annotated[int, typer.Option(metavar="N", help="Also the newest N that have ended.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """List the platform's jobs."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        show_all(out, platform.jobs(tenant, ended))


def show(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """Show everything about a job, and its story."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        show_one(out, platform, job)


def show_all(out: Output, infos: Sequence[JobInfo]) -> None:
    """One line per job."""
    out.show({"jobs": [job_view.job_document(info) for info in infos]}, job_view.jobs_table(infos, time.time()))


def show_one(out: Output, platform: Platform, job: str | None) -> None:
    """Everything about one."""
    from raytide.cli.following import view_of
    from raytide.cli.render import members_table

    info, now_s = platform.job(job or only(platform.jobs())), time.time()
    view = view_of(info.job)
    shown: list[RenderableType] = [job_view.job_table(info, now_s), ""]
    if view is not None and not info.ended:
        shown += [members_table(view.members, cluster.node_names()), ""]
    out.show(job_view.job_document(info), *shown, *job_view.story_lines(info, now_s))


def logs(
    job: JobArgument = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    rank: Annotated[
        int | None, typer.Option(min=0, help="What this process of a rigid job printed, instead of the job's events.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document per line.")] = False,
) -> None:
    """Show what happened to a job: what the scheduler did, resizes with their cost, losses, checkpoints."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        from raytide.cli.following import happened, printed

        name = job or only(platform.jobs())
        if rank is not None:
            for text in printed(platform, name, rank, follow=follow):
                out.show_line({"rank": rank, "line": text}, Text(text))
            return
        for document, line in happened(platform, name, follow=follow):
            out.show_line(document, line)


def stay(out: Output, platform: Platform, job: str) -> None:
    """Follow a job to its end, which is the command's answer.

    Raises:
        typer.Exit: It did not succeed.
    """
    from raytide.cli.following import happened

    out.say("following; Ctrl-C leaves the job running")
    for _, line in happened(platform, job, follow=True):
        if out.as_json:
            out.say(line.plain)
        else:
            out.show_line(None, line)
    info = platform.job(job)
    out.show(job_view.job_document(info), Text(), job_view.job_table(info, time.time()))
    if info.state != "succeeded":
        out.finish()
        raise typer.Exit(EXIT_FAILED)
