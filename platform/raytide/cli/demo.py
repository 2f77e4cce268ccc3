"""``demo``: one real job lives through everything that can happen to it, on two logical nodes."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raytide.cli import render
from raytide.cli.options import JsonOption
from raytide.cli.output import EXIT_FAILED, Output, output

if TYPE_CHECKING:
    from raytide.cli.demo_story import Told


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the picture and the traces go.")] = Path("out/demo"),
    epochs: Annotated[
        int | None, typer.Option(help="Length of the training; fits this machine if left out.", min=5)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Watch a real training job grow, move, lose a replica to kill -9 and shrink, in under 3 minutes."""
    with output(as_json=as_json) as out:
        from raytide.cli.demo_story import tell

        told = tell(folder.absolute(), epochs, out.say)
        show(out, told)
    if not told.is_exact:
        raise typer.Exit(EXIT_FAILED)


def show(out: Output, told: Told) -> None:
    """Show what the demo proved."""
    out.show(document(told), render.moments_table(told.story), "\n".join(summary(told)))


def summary(told: Told) -> list[str]:
    """The lines below the table."""
    each = sorted({epoch.samples for epoch in told.epochs})
    seen = " or ".join(f"{samples:,}" for samples in each)
    verdict = "each sample exactly once" if told.is_exact else "NOT each sample exactly once"
    cores = os.cpu_count() or 1
    lines = [
        f"samples seen: {seen} in each of {len(told.epochs)} epochs, {verdict}",
        f"final accuracy: {told.accuracy:.2%} on images it never saw",
        f"timeline: {told.picture}",
    ]
    if cores < told.most:
        lines.append(
            f"This machine has {cores} cores: more replicas than that share them, so throughput stops "
            f"rising at {cores} replicas. What the demo shows is that nothing stops and nothing is lost."
        )
    return [*lines, f"the whole demo took {told.total_s:.0f} s"]


def document(told: Told) -> dict[str, Any]:
    """The same for programs."""
    return {
        "status": told.result.status,
        "accuracy": told.accuracy,
        "events": [moment.as_dict() for moment in told.story],
        "epochs": len(told.epochs),
        "samples_per_epoch": [epoch.samples for epoch in told.epochs],
        "each_sample_exactly_once": told.is_exact,
        "picture": str(told.picture),
        "checkpoint": told.result.path,
        "cores": os.cpu_count(),
        "total_s": told.total_s,
    }
