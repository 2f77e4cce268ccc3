"""``run``: start a job module and stay with it to its end."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from raytide.cli import cluster, render
from raytide.cli.options import JsonOption
from raytide.cli.output import output
from raytide.errors import ConfigError

if TYPE_CHECKING:
    from raytide.jobs.running import Job


def run(  # noqa: PLR0913, PLR0917 - the options of the command
    module: Annotated[
        str, typer.Argument(metavar="MODULE", help="Import name of a module with loop(config) and CONFIG.")
    ],
    workers: Annotated[str, typer.Option(metavar="MIN:MAX", help="Replicas.")] = "1:4",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the job; repeatable."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Short for --set epochs=N.", min=1)] = None,
    name: Annotated[str | None, typer.Option(help="The job's name; made up if left out.")] = None,
    storage: Annotated[str | None, typer.Option(help="Folder or URL for checkpoints.  [default: ~/raytide]")] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="One GPU for each replica.")] = False,
    resume: Annotated[
        str | None, typer.Option(metavar="PATH|latest", help="Start from a checkpoint; latest needs --name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job on the cluster that is running, or on one started for it, and show its progress."""
    with output(as_json=as_json) as out:
        if resume == "latest" and name is None:
            raise ConfigError("resume", "the latest checkpoint of which job?", "Add --name, as in the run before")
        job = load(module, settings or [], epochs)
        from raytide.jobs.running import parse_workers
        from raytide.train import RunConfig, ScalingConfig

        scaling = ScalingConfig(num_workers=parse_workers(workers), use_gpu=gpu)
        chosen = name or f"{module.rpartition('.')[2]}-{time.strftime('%m%d-%H%M%S')}"
        config = RunConfig(name=chosen, storage_path=storage, resume_from=resume)
        if job.note:
            out.say(job.note)
        out.say(f"job {chosen}: {workers} replicas; `raytide scale {chosen} +1` in another shell makes it grow")
        result = job.trainer(scaling, config).fit()
        out.show(render.result_document(result), render.result_text(result))


def load(module: str, settings: list[str], epochs: int | None) -> Job:
    """Import a job and change its settings.

    Raises:
        ConfigError: It cannot be imported, or has no such setting.
    """
    cluster.use_working_folder()
    from raytide.jobs.running import load_job, parse_settings

    changes = parse_settings(settings, epochs)
    try:
        return load_job(module).with_settings(changes)
    except (ImportError, SyntaxError) as error:
        raise ConfigError("job", f"{module} cannot be imported: {error}", "Install or mend what it says") from error
