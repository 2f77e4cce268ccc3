"""Asking things of a running job: ``scale``, ``migrate``, ``profile``, ``suspend`` and the like."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from raytide.cli import cluster, render
from raytide.cli.options import (
    Change,
    FirstWord,
    JobArgument,
    JsonOption,
    parse_bounds,
    parse_change,
    parse_rank,
    parse_ranks,
    split_list,
    split_words,
)
from raytide.cli.output import Output, output
from raytide.cli.owners import OfPlatform, owner
from raytide.errors import ConfigError

if TYPE_CHECKING:
    from raytide.actors.client import RayJobHandle
    from raytide.actors.platform import Platform
    from raytide.train import RequestCost

Action = Callable[["RayJobHandle"], "RequestCost"]
Order = Callable[["Platform", str], None]


def scale(
    job: FirstWord = None,
    change: Annotated[
        str | None,
        typer.Argument(metavar="+N|-N|N|A:B", show_default=False, help="By so many, to so many, or within A and B."),
    ] = None,
    ranks: Annotated[str | None, typer.Option(metavar="1,2", help="Take out these ranks.")] = None,
    slots: Annotated[str | None, typer.Option(metavar="NODE,NODE", help="Add one replica on each of these.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Change a job's replica count while it trains: by +N or -N, or to N; on a platform also its bounds."""
    with output(as_json=as_json) as out:
        if parse_bounds(change or job or "") is not None:
            plan: tuple[str | None, Action] = (job if change else None, _refuse_bounds)
        else:
            plan = plan_scale(job, change, parse_ranks(ranks), split_list(slots))
        with owner(plan[0]) as found:
            if isinstance(found, OfPlatform):
                bounds = plan_bounds(change or job or "", found.platform.job(found.job).count, ranks or slots)
                found.platform.scale(found.job, *bounds)
                _show_asked(out, found, f"bounds are {bounds[0]}:{bounds[1]}")
            else:
                world_size, cost = found.handle.view(cluster.NO_EVENTS).world_size, plan[1](found.handle)
                document = _document(found.handle, cost, before=world_size)
                out.show(document, render.cost_text("scaled", cost))


def plan_bounds(word: str, count: int, chosen: str | None) -> tuple[int, int]:
    """The bounds to ask of the platform for a job of ``count`` processes.

    Args:
        word: ``+N``, ``-N``, ``N`` or ``A:B``.
        count: Processes it has.
        chosen: Ranks or slots, which a user cannot choose there.
    """
    if chosen:
        remedy = "Give a number; `raytide node drain` empties a node"
        raise ConfigError("scale", "the platform chooses ranks and slots", remedy)
    bounds = parse_bounds(word)
    if bounds is None:
        wanted = count + parse_change(word).delta(count)
        bounds = (wanted, wanted)
    if bounds[0] < 1:
        raise ConfigError("scale", "a job has at least 1 replica", "Use `raytide suspend` to give back every slot")
    return bounds


def _refuse_bounds(handle: RayJobHandle) -> RequestCost:
    raise ConfigError("scale", f"job {handle.name} has no platform that would choose within bounds", "Give a number")


def plan_scale(
    first: str | None, second: str | None, ranks: tuple[int, ...] = (), slots: tuple[str, ...] = ()
) -> tuple[str | None, Action]:
    """The job that is meant, and what to ask of it."""
    if ranks and slots:
        raise ConfigError("scale", "--ranks takes out and --slots adds", "Use one of them at a time")
    if not ranks and not slots:
        name, word = split_words("scale", first, second, "+N|-N|N")
        return name, _by_count(parse_change(word))
    is_count = second is None and first is not None and first.lstrip("+-").isdigit()
    name, count = (None, first) if is_count else (first, second)
    wanted = Change(by=len(slots) - len(ranks))
    if count is not None and parse_change(count) != wanted:
        option = "--ranks" if ranks else "--slots"
        raise ConfigError("scale", f"{count} is not what {option} says", f"Leave it out, or write {wanted.by:+}")
    if ranks:
        return name, lambda handle: handle.scale_in(ranks=ranks)
    return name, lambda handle: handle.scale_out(slots=slots)


def _by_count(change: Change) -> Action:
    def act(handle: RayJobHandle) -> RequestCost:
        delta = change.delta(cluster.size_of(handle) if change.to is not None else 0)
        if delta == 0:
            raise ConfigError("scale", "the job has that size already", "Nothing needs to be done")
        return handle.scale_out(delta) if delta > 0 else handle.scale_in(-delta)

    return act


def migrate(
    job: FirstWord = None,
    rank: Annotated[
        str | None, typer.Argument(metavar="RANK", show_default=False, help="As `raytide status` shows it.")
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="NODE", help="Its new node; any with a free slot if left out.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Move one replica to another slot while the job trains."""
    with output(as_json=as_json) as out:
        name, word = split_words("migrate", job, rank, "RANK")
        number = parse_rank(word)
        with cluster.job(name) as handle:
            cost = handle.migrate(number, to)
        out.show(_document(handle, cost), render.cost_text("migrated", cost))


def profile(
    job: FirstWord = None,
    sizes: Annotated[
        str | None, typer.Argument(metavar="MIN:MAX", show_default=False, help="The sizes to measure.")
    ] = None,
    window: Annotated[float, typer.Option(help="Seconds to measure at each size.", min=0.1)] = 3.0,
    as_json: JsonOption = False,
) -> None:
    """Measure throughput at each size, from MAX down to MIN, in one run; the job keeps MIN replicas."""
    with output(as_json=as_json) as out:
        name, word = split_words("profile", job, sizes, "MIN:MAX")
        from raytide.jobs.running import parse_workers

        least, most = parse_workers(word)
        with cluster.job(name) as handle:
            frame = handle.profile(least, most, window_s=window)
        rows = [{str(key): value for key, value in row.items()} for row in frame.to_dict(orient="records")]
        out.show({"job": handle.name, "sizes": rows}, render.profile_table(rows))


def checkpoint(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """Write a checkpoint beside training."""
    _request(job, "saved", lambda handle: handle.checkpoint(), as_json=as_json)


def suspend(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """Save a job's state and give back every slot."""
    _ask(job, "suspended", lambda handle: handle.suspend(), lambda platform, name: platform.suspend(name), as_json)


def resume(
    job: JobArgument = None,
    workers: Annotated[int, typer.Option(help="Replicas to go on with; as at the start if left out.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Go on with a suspended job; on a platform when it is its turn."""

    def order(platform: Platform, name: str) -> None:
        if workers:
            raise ConfigError("resume", "the platform chooses how many", "Leave --workers out, or use `raytide scale`")
        platform.resume(name)

    _ask(job, "resumed", lambda handle: handle.resume(workers), order, as_json)


def stop(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """End a job at its next boundary, with a checkpoint; on a platform this cancels it."""
    _ask(job, "stopped", lambda handle: handle.stop(), lambda platform, name: platform.cancel(name), as_json)


def cancel(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """End a job of the platform, whether it runs or waits."""
    _ask(job, "cancelled", lambda handle: handle.stop(), lambda platform, name: platform.cancel(name), as_json)


def pin(
    job: JobArgument = None,
    off: Annotated[bool, typer.Option("--off", help="Leave it to the policy again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Leave a job of the platform as it is: no other size, no suspension for others."""
    with output(as_json=as_json) as out, owner(job) as found:
        if not isinstance(found, OfPlatform):
            raise ConfigError("pin", "no platform would change this job", "Nothing needs to be done")
        found.platform.pin(found.job, pinned=not off)
        _show_asked(out, found, "left to the policy" if off else "pinned")


def _ask(job: str | None, done: str, action: Action, order: Order, as_json: bool) -> None:
    with output(as_json=as_json) as out, owner(job) as found:
        if isinstance(found, OfPlatform):
            order(found.platform, found.job)
            _show_asked(out, found, f"will be {done}")
        else:
            cost = action(found.handle)
            out.show(_document(found.handle, cost), render.cost_text(done, cost))


def _show_asked(out: Output, found: OfPlatform, done: str) -> None:
    """What the platform was asked is on disk; what it makes of it comes a moment later."""
    from raytide.cli.job_view import first_line, job_document, state_text

    info = found.platform.job(found.job)
    reason = f" ({first_line(info.reason)})" if info.reason else ""
    out.show(job_document(info), Text.assemble((f"{info.job}: ", "bold"), f"{done}; ", state_text(info), reason))


def _request(job: str | None, done: str, action: Action, *, as_json: bool) -> None:
    with output(as_json=as_json) as out:
        with cluster.job(job) as handle:
            cost = action(handle)
        out.show(_document(handle, cost), render.cost_text(done, cost))


def _document(handle: RayJobHandle, cost: RequestCost, **more: object) -> dict[str, object]:
    return {"job": handle.name, **asdict(cost), **more}
