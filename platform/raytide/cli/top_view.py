"""One frame of ``top``: the cluster, what runs, and what waits for what. Nothing here talks to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from raytide.cli import grid
from raytide.cli.clock import clock, length
from raytide.cli.job_view import progress, since, size, state_text, why
from raytide.cli.render import table

if TYPE_CHECKING:
    from raytide.actors.scheduler.info import JobInfo, PlatformInfo

_FIXED = 9
"""Lines of a frame that are neither nodes nor jobs: headings, rules, blanks."""
_NAME = 22
"""Characters of a job's or a tenant's name that are shown."""


def frame(info: PlatformInfo, now_s: float, width: int, height: int) -> Group:
    """The platform at one instant, in at most ``height`` lines of ``width`` characters."""
    running = [job for job in info.jobs if job.gpus]
    waiting = sorted((job for job in info.jobs if not job.gpus), key=lambda job: (job.position == 0, job.position))
    lines = max(3, height - _FIXED)
    nodes = min(max(1, len(info.nodes)), max(1, lines // 3))
    most_waiting = min(len(waiting), max(1, (lines - nodes) // 2))
    most_running = max(1, lines - nodes - most_waiting)
    most_waiting = max(1, lines - nodes - min(len(running), most_running))
    return Group(
        headline(info, now_s),
        Text(),
        grid.grid(info, nodes, width),
        grid.legend(info),
        Text(),
        running_table(running, grid.job_keys(info.jobs), now_s, most_running),
        Text(),
        queue_table(waiting, now_s, most_waiting),
    )


def headline(info: PlatformInfo, now_s: float) -> Text:
    """How much is used, how many wait, what decides."""
    slots, held = sum(node.slots for node in info.nodes), sum(grid.held_by_job(info).values())
    waiting = sum(not job.gpus for job in info.jobs)
    share = f" ({held / slots:.0%})" if slots else ""
    line = Text.assemble(
        ("raytide", "bold cyan"),
        ("  policy ", "dim"),
        f"{info.policy}/{info.placer}",
        ("  slots ", "dim"),
        f"{held} of {slots}{share}",
        ("  running ", "dim"),
        str(len(info.jobs) - waiting),
        ("  waiting ", "dim"),
        (str(waiting), "yellow" if waiting else ""),
        ("  tick ", "dim"),
        f"{1000 * info.tick_s:.1f} ms",
        (f"  {clock(now_s, now_s)}", "dim"),
    )
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def running_table(jobs: list[JobInfo], keys: dict[str, str], now_s: float, most: int) -> RenderableType:
    """Jobs that hold slots."""
    if not jobs:
        return Text("nothing runs", style="dim")
    numbers = ("slots", "size", "samples/s", "time")
    made = _table("", "running", "tenant", "state", *numbers, "progress", numbers=numbers)
    for job in _cut(jobs, most):
        rate = f"{job.samples_per_s:,.0f}" if job.samples_per_s else "-"
        cells = (str(job.gpus), size(job), rate, since(job, now_s), progress(job))
        made.add_row(Text(keys[job.job], style="bold"), job.job, job.tenant, state_text(job), *cells)
    return _with_rest(made, len(jobs) - most)


def queue_table(jobs: list[JobInfo], now_s: float, most: int) -> RenderableType:
    """Jobs that wait, in the order of the queue, and why."""
    if not jobs:
        return Text("nobody waits", style="dim")
    made = _table("#", "waiting", "tenant", "wants", "for", "why", numbers=("#", "wants", "for"))
    for job in _cut(jobs, most):
        place = str(job.position or "-")
        bounds = f"{job.least}" if job.least == job.most else f"{job.least}..{job.most}"
        asleep = f"{job.state}: " if job.state != "pending" else ""
        waits = length(now_s - job.submitted_s)
        made.add_row(place, job.job, job.tenant, bounds, waits, Text(asleep + why(job), style="yellow"))
    return _with_rest(made, len(jobs) - most)


def _table(*columns: str, numbers: tuple[str, ...]) -> Table:
    made = table(*columns, numbers=numbers)
    made.box = None
    for column in made.columns:
        column.overflow = "ellipsis"
    for column in made.columns[1:3]:
        column.max_width = _NAME
    made.expand, made.columns[-1].ratio = True, 1
    return made


def _cut(jobs: list[JobInfo], most: int) -> list[JobInfo]:
    return jobs if len(jobs) <= most else jobs[: max(0, most - 1)]


def _with_rest(made: Table, more: int) -> RenderableType:
    return made if more <= 0 else Group(made, Text(f"and {more + 1} more", style="dim"))
