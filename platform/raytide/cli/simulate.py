"""``simulate``: a trace under one or more policies, with tables, files and pictures."""

# ruff: noqa: PLC0415 - pandas and matplotlib are imported when the command runs, so that help comes at once

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raytide.cli import cluster
from raytide.cli.options import JsonOption, split_list
from raytide.cli.output import Output, output
from raytide.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from raytide.core import Node
    from raytide.sim import Costs, SimOptions, SimResult
    from raytide.sim.api import Progress
    from raytide.sim.traces import TraceJob

_UPDATES = 200
"""How often a progress bar moves on its way; it costs time."""


def simulate(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace in any format that is known.")],
    nodes: Annotated[str, typer.Option(metavar="NODESxGPUS", help="The cluster; types: 4x8:A100,2x4:T4.")] = "16x8",
    policy: Annotated[str, typer.Option(metavar="NAME,...", help="Names, or package.module:Class.")] = "fifo",
    placer: Annotated[str, typer.Option(metavar="NAME", help="Where GPUs are taken.")] = "pack",
    folder: Annotated[Path, typer.Option("--out", help="Where tables and pictures go.")] = Path("out/simulation"),
    restart_cost: Annotated[
        float, typer.Option(metavar="S", help="Seconds without progress at every start, the first one too.")
    ] = 0.0,
    resize_cost: Annotated[
        float, typer.Option(metavar="S", help="Seconds without progress at every change of size or place.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Simulate a trace and compare policies: who waits, for how long, and how full the cluster is."""
    with output(as_json=as_json) as out:
        from raytide.sim import SimOptions, parse_cluster

        policies, there = policy_list(policy, placer), parse_cluster(nodes)
        options = SimOptions(parse_costs(restart_cost, resize_cost))
        jobs = read_jobs(trace)
        prepare_folder(folder)
        results = _simulate_all(Study(jobs, there, placer, options), policies)
        _show(out, results, folder)


def policy_list(text: str, placer: str) -> tuple[str, ...]:
    """The policies that are named, which exist, as does the placer.

    Raises:
        ConfigError: There is none of such a name, or one is named twice.
    """
    from raytide.policies.registry import make_placer, make_policy

    cluster.use_working_folder()
    names = split_list(text)
    if not names:
        raise ConfigError("policy", "none is named", "Write --policy fifo,las2d")
    for name in names:
        make_policy(name)
        if names.count(name) > 1:
            raise ConfigError("policy", f"{name} is named twice", "Name every policy once")
    make_placer(placer)
    return names


def parse_costs(restart_s: float, resize_s: float) -> Costs:
    """What changes cost.

    Raises:
        ConfigError: One is not a number of seconds from 0 up.
    """
    from raytide.sim import Costs

    for option, value in (("restart-cost", restart_s), ("resize-cost", resize_s)):
        if not 0 <= value < math.inf:
            raise ConfigError(option, f"{value:g} is no cost", "Give seconds, 0 or more")
    return Costs(start_s=restart_s, resume_s=restart_s, resize_s=resize_s)


def read_jobs(trace: Path) -> Sequence[TraceJob]:
    """The jobs of a trace that can be simulated.

    Raises:
        ConfigError: There is no such file, or a job has no duration.
        TraceError: It is malformed.
    """
    from raytide.sim.api import sim_jobs

    jobs = read(trace)
    sim_jobs(jobs)
    return jobs


def read(trace: Path) -> Sequence[TraceJob]:
    """A trace.

    Raises:
        ConfigError: There is no such file.
        TraceError: It is malformed.
    """
    from raytide.sim.traces import read_trace

    try:
        return read_trace(trace)
    except OSError as error:
        raise ConfigError("trace", f"{trace}: {error.strerror or error}", "Give the path of a trace") from error


def prepare_folder(folder: Path) -> None:
    """Make a folder for results, and see that files can be written there.

    Raises:
        ConfigError: They cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        problem = f"{folder} cannot be written: {error.strerror or error}"
        raise ConfigError("out", problem, "Give a folder of your own") from error


class Study:
    """A trace on a cluster.

    Args:
        jobs: The trace.
        nodes: The cluster.
        placer: Its name.
        options: Costs.
    """

    def __init__(self, jobs: Sequence[TraceJob], nodes: Sequence[Node], placer: str, options: SimOptions) -> None:
        self.jobs = jobs
        self._nodes = nodes
        self._placer = placer
        self._options = options

    def run(self, policy: str, on_progress: Progress) -> SimResult:
        """Simulate it under one policy."""
        from raytide.sim import simulate as simulate_trace

        options = replace(self._options, on_progress=on_progress)
        return simulate_trace(self.jobs, self._nodes, policy, self._placer, options)


def _simulate_all(study: Study, policies: Sequence[str]) -> dict[str, SimResult]:
    results = {}
    for policy in policies:
        with _bar(policy, len(study.jobs)) as progress:
            results[policy] = study.run(policy, progress)
    return results


@contextmanager
def _bar(policy: str, total: int) -> Iterator[Progress]:
    """A line on standard error, with the jobs that are over."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("jobs done"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as shown:
        task = shown.add_task(policy, total=total)
        seen = 0

        def update(done: int, _total: int) -> None:
            nonlocal seen
            if done >= seen + total / _UPDATES or done == total:
                seen = done
                shown.update(task, completed=done)

        yield update


def _show(out: Output, results: dict[str, SimResult], folder: Path) -> None:
    from raytide.cli.simulated import comparison, tenants_compared, write_results
    from raytide.sim.report import Run, summary

    runs = {name: Run.of(result) for name, result in results.items()}
    figures = {name: summary(run.result, run.jobs) for name, run in runs.items()}
    document: dict[str, Any] = {"policies": figures}
    try:
        note = write_results(runs, document, folder)
    except OSError as error:
        raise ConfigError("out", f"{folder}: {error.strerror or error}", "Make room, or give another folder") from error
    if note:
        out.say(note)
    out.show(document, comparison(figures), "", tenants_compared(figures), f"\njobs, figures and charts: {folder}")
