"""``simulate``: a trace under one or more policies, with tables, files and pictures."""

# ruff: noqa: PLC0415 - pandas and matplotlib are imported when the command runs, so that help comes at once

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raytide.cli import cluster
from raytide.cli.options import JsonOption, split_list
from raytide.cli.output import Output, output
from raytide.cli.scenario import Scenario, parse_costs, read_tenants
from raytide.errors import ConfigError

if TYPE_CHECKING:
    from raytide.sim import SimResult
    from raytide.sim.api import Progress
    from raytide.sim.traces import TraceJob

_UPDATES = 200
"""How often a progress bar moves on its way; it costs time."""


def simulate(  # noqa: PLR0913, PLR0917 - the options of the command
    trace: Annotated[
        str,
        typer.Argument(metavar="TRACE", help="In any known format, or one that is drawn: generate:jobs=500,span=12h."),
    ],
    nodes: Annotated[str, typer.Option(metavar="NODESxGPUS", help="The cluster; types: 4x8:A100,2x4:T4.")] = "16x8",
    policy: Annotated[str, typer.Option(metavar="NAME,...", help="Names, or package.module:Class.")] = "tide",
    placer: Annotated[str, typer.Option(metavar="NAME", help="Where GPUs are taken.")] = "pack",
    folder: Annotated[Path, typer.Option("--out", help="Where tables and pictures go.")] = Path("out/simulation"),
    tenants: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Quotas: guaranteed_gpus, limit_gpus, weight, parent.")
    ] = None,
    faults: Annotated[
        str,
        typer.Option(
            metavar="KEY=TIME,...",
            show_default=False,
            help="Each node fails (mtbf=6h,repair=30m), or is reclaimed (spot=1d,notice=2m,away=1h).",
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(help="Simulate with so many seeds, of faults and of a drawn trace.")] = 1,
    seed: Annotated[int, typer.Option(help="The first of them.")] = 0,
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
        from raytide.sim.faults import parse_faults

        policies, there = policy_list(policy, placer), parse_cluster(nodes)
        options = SimOptions(parse_costs(restart_cost, resize_cost), read_tenants(tenants))
        scenario = Scenario(trace, there, placer, options, parse_faults(faults) if faults else None)
        drawn = range(seed, seed + seeds)
        scenario.check_seeds(drawn)
        jobs = scenario.jobs(seed)
        prepare_folder(folder)
        found = []
        for number in drawn:
            results = _simulate_all(scenario, jobs if number == seed else scenario.jobs(number), policies, number)
            found.append(_write(results, folder / f"seed-{number}" if seeds > 1 else folder, out))
        _show(out, drawn, found, folder)


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


def _simulate_all(
    scenario: Scenario, jobs: Sequence[TraceJob], policies: Sequence[str], seed: int
) -> dict[str, SimResult]:
    results = {}
    for policy in policies:
        with _bar(policy, len(jobs)) as progress:
            results[policy] = scenario.run(jobs, policy, seed, progress)
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


def _write(results: Mapping[str, SimResult], folder: Path, out: Output) -> dict[str, Any]:
    """Write what one seed gave; returns its figures by policy."""
    from raytide.cli.simulated import write_results
    from raytide.sim.report import Run, summary

    runs = {name: Run.of(result) for name, result in results.items()}
    figures = {name: summary(run.result, run.jobs) for name, run in runs.items()}
    try:
        folder.mkdir(exist_ok=True)
        note = write_results(runs, {"policies": figures}, folder)
    except OSError as error:
        raise ConfigError("out", f"{folder}: {error.strerror or error}", "Make room, or give another folder") from error
    if note:
        out.say(note)
    return figures


def _show(out: Output, seeds: Sequence[int], found: Sequence[dict[str, Any]], folder: Path) -> None:
    """The figures of one seed, or of several their means and how far they spread."""
    from raytide.cli.simulated import comparison, tenants_compared, write_summary
    from raytide.sim.report import mean_figures, spread_figures

    where = f"\njobs, figures and charts: {folder}"
    if len(found) == 1:
        (figures,) = found
        out.show({"policies": figures}, comparison(figures), "", tenants_compared(figures), where)
        return
    means, spread = mean_figures(found), spread_figures(found)
    document = {"seeds": list(seeds), "policies": means, "spread": spread}
    write_summary(document, folder)
    said = f"means of {len(seeds)} seeds ± their standard deviation"
    out.show(document, said, comparison(means, spread), "", tenants_compared(means, spread), f"{where}/seed-*")
