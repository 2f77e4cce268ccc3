"""``submit``: hand in a job."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from raytide.cli import cluster, job_view
from raytide.cli.jobs import stay
from raytide.cli.options import JsonOption
from raytide.cli.output import output
from raytide.errors import ConfigError, RequestRefused

if TYPE_CHECKING:
    from raytide.submission import JobFile


def submit(
    path: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job's file; docs/job_files.md has its fields.")],
    tenant: Annotated[str | None, typer.Option(help="Whose job it is.  [default: the token's]")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher goes first, where the policy looks at it.")] = None,
    workers: Annotated[str | None, typer.Option(metavar="MIN:MAX", help="Replicas.")] = None,
    deadline: Annotated[str | None, typer.Option(metavar="2h", help="When it has to be done.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name.  [default: the file's, or made up]")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay with it to its end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Hand in a job; returns when it is on disk. Options go before what the file says."""
    with output(as_json=as_json) as out:
        count = int(workers) if workers and workers.isdecimal() else workers
        changes = {"tenant": tenant, "priority": priority, "workers": count, "deadline": deadline, "name": name}
        job = read_job(path, {field: value for field, value in changes.items() if value is not None})
        with cluster.platform() as platform:
            from raytide.actors.from_file import job_submission

            chosen = job.name or made_up_name(path)
            folder, slot = path.absolute().parent, platform.info().slot
            info = platform.submit(*job_submission(job, chosen, folder, slot, time.time()))
            if info.state == "refused":
                raise RequestRefused(f"job {info.job} is refused: {info.reason}")
            said = Text.assemble(("submitted ", "dim"), (info.job, "bold"), "  ", job_view.state_text(info))
            if not follow:
                out.show(job_view.job_document(info), said)
                return
            out.say(said.plain)
            stay(out, platform, info.job)


def read_job(path: Path, changes: dict[str, Any]) -> JobFile:
    """The job of a file, with other values for some fields.

    Raises:
        ConfigError: The file cannot be read, or is wrong; the message has its line.
    """
    from raytide.submission import parse_job
    from raytide.submission.changes import changed

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        problem = f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(str(path), problem, "Give a job file, see docs/job_files.md") from error
    job = parse_job(text, str(path))
    if "workers" in changes and getattr(job, "start_workers", None) is not None:
        changes = {**changes, "start_workers": None}  # it belonged to the file's range
    return changed(job, changes)


def made_up_name(path: Path) -> str:
    """A name that no other job has: from the file's."""
    stem = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in path.stem).strip("-_") or "job"
    return f"{stem[:32]}-{time.strftime('%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
