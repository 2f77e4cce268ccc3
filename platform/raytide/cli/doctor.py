"""``doctor``: is this machine fit for raytide, and if not, what to do."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when the command runs, so that help comes at once

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raytide.cli import cluster
from raytide.cli.options import JsonOption
from raytide.cli.output import EXIT_FAILED, output
from raytide.errors import RequestRefused

if TYPE_CHECKING:
    from rich.table import Table

    from raytide.doctor import Facts, Finding
    from raytide.doctor.facts import RayCluster

_STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red"}


def doctor(
    storage: Annotated[str, typer.Option(metavar="FOLDER|URL", help="Where checkpoints go.")] = "~/raytide",
    as_json: JsonOption = False,
) -> None:
    """Look at versions, GPUs, ports, clocks and limits; exits with 1 if something will make jobs fail."""
    with output(as_json=as_json) as out:
        from raytide.doctor import diagnose

        out.say("looking at this machine (about 10 seconds)")
        findings = diagnose(gather(storage))
        counts = {level: sum(found.level == level for found in findings) for level in _STYLES}
        said = ", ".join(f"{count} {level}" for level, count in counts.items())
        out.show({"findings": [asdict(found) for found in findings], **counts}, findings_table(findings), "", said)
    if counts["bad"]:
        raise typer.Exit(EXIT_FAILED)


def gather(storage: str) -> Facts:
    """All facts about this machine and its cluster."""
    from raytide.doctor import Facts, gather_ray
    from raytide.doctor import gather as local

    found = gather_ray.cluster(os.environ, Path.home())
    return Facts(
        local.software(),
        local.gpus(),
        gather_ray.ports(),
        local.machine(storage),
        with_clocks(found) if found.answers else found,
    )


def with_clocks(found: RayCluster) -> RayCluster:
    """A cluster that answers, with what its nodes' clocks show."""
    from ray.exceptions import GetTimeoutError, RayError

    from raytide.doctor.gather_ray import clocks

    try:
        with cluster.connected():
            return replace(found, clocks=clocks())
    except GetTimeoutError:
        return replace(found, failure="a node ran no task for half a minute")
    except (RayError, RequestRefused) as error:
        return replace(found, failure=str(error).strip().splitlines()[0])


def findings_table(findings: Sequence[Finding]) -> Table:
    """One line per finding; what is to be done stands below what was seen."""
    from rich.text import Text

    from raytide.cli.render import table

    made = table("", "what", "found")
    made.columns[2].no_wrap = False
    for found in findings:
        style = _STYLES[found.level]
        seen = Text(found.detail)
        if found.remedy:
            seen.append(f"\n{found.remedy}", style)
        made.add_row(Text(found.level, style), found.what, seen)
    return made
