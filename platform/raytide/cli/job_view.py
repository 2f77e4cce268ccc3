"""How jobs of the platform look: tables for people, documents for programs. Nothing here talks to a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from raytide.actors.views import metrics_text
from raytide.cli.clock import clock, entry, length
from raytide.cli.render import table

if TYPE_CHECKING:
    from raytide.actors.scheduler.info import JobInfo

_STYLES = {
    "running": "green",
    "resizing": "cyan",
    "starting": "cyan",
    "succeeded": "bold green",
    "failed": "bold red",
    "refused": "bold red",
    "cancelled": "magenta",
}
_WAITING = ("pending", "suspended")


def state_text(info: JobInfo) -> Text:
    """Its state, coloured; of a waiting job with its place in the queue."""
    place = f" #{info.position}" if info.position else ""
    return Text(f"{info.state}{place}", style=_STYLES.get(info.state, "yellow"))


def size(info: JobInfo) -> str:
    """``2 of 1..4``."""
    bounds = f"{info.least}" if info.least == info.most else f"{info.least}..{info.most}"
    return f"{info.count} of {bounds}"


def where(info: JobInfo) -> str:
    """``node-a 2, node-b 1``."""
    return ", ".join(f"{node} {count}" for node, count in info.nodes)


def since(info: JobInfo, now_s: float) -> str:
    """How long it waits, has run, or ran."""
    if info.ended_s is not None:
        return length(info.ended_s - (info.first_start_s or info.submitted_s))
    began_s = info.submitted_s if info.state == "pending" else info.first_start_s
    return length(now_s - (began_s or info.submitted_s))


def progress(info: JobInfo) -> str:
    """``epoch 3, step 70``, or how much is done of what was declared."""
    share = f"{min(1.0, info.done / info.work):.0%}" if info.work and info.done else ""
    step = f"epoch {info.epoch}, step {info.step}" if info.step else ""
    return ", ".join(part for part in (share, step) if part)


def jobs_table(infos: Sequence[JobInfo], now_s: float) -> Table | Text:
    """One line per job."""
    if not infos:
        return Text("no jobs; hand one in with `raytide submit`")
    numbers = ("size", "samples/s", "time")
    made = table("job", "tenant", "state", *numbers, "progress", "where or why", numbers=numbers)
    for column in made.columns[:2]:
        column.max_width, column.overflow = 24, "ellipsis"
    made.expand, made.columns[-1].ratio, made.columns[-1].overflow = True, 1, "ellipsis"
    for info in infos:
        made.add_row(
            info.job,
            info.tenant,
            state_text(info),
            size(info),
            f"{info.samples_per_s:,.0f}" if info.samples_per_s else "-",
            since(info, now_s),
            progress(info),
            where(info) if info.nodes else Text(why(info), style="dim"),
        )
    return made


def why(info: JobInfo) -> str:
    """Why it is as it is, without its place in the queue."""
    return re.sub(r"^position \d+ of \d+: ", "", first_line(info.reason))


def first_line(text: str) -> str:
    """Of what may be a whole traceback."""
    return text.strip().partition("\n")[0]


def job_table(info: JobInfo, now_s: float) -> Table:
    """Everything about one job."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column()
    for name, value in [*_standing(info), *_times(info, now_s), *_results(info)]:
        if value:
            made.add_row(name, value)
    return made


def _standing(info: JobInfo) -> list[tuple[str, str | Text]]:
    told = Text.assemble(state_text(info), f": {info.reason}" if info.reason else "")
    pinned = "" if info.preemptible else ", not preemptible"
    return [
        ("job", Text(info.job, style="bold")),
        ("state", told),
        ("kind", info.kind),
        ("tenant", f"{info.tenant}, priority {info.priority}{pinned}"),
        ("size", f"{size(info)} processes, {info.gpus} slots"),
        ("nodes", where(info)),
    ]


def _times(info: JobInfo, now_s: float) -> list[tuple[str, str | Text]]:
    times = [
        ("submitted", info.submitted_s),
        ("started", info.first_start_s),
        ("deadline", info.deadline_s),
        ("ended", info.ended_s),
    ]
    return [(name, clock(at_s, now_s)) for name, at_s in times if at_s is not None]


def _results(info: JobInfo) -> list[tuple[str, str | Text]]:
    failures = ", ".join(f"{count} by the {fault}" for fault, count in info.failures.items() if count)
    return [
        ("progress", progress(info)),
        ("throughput", f"{info.samples_per_s:,.0f} samples/s" if info.samples_per_s else ""),
        ("metrics", metrics_text(info.metrics)),
        ("slot time", length(info.attained_gpu_s)),
        ("changes", f"{info.resizes} resizes, {info.suspensions} suspensions"),
        ("failures", failures),
        ("checkpoint", info.checkpoint),
        ("storage", info.storage),
        ("result", result_text(info.result)),
    ]


def result_text(result: str) -> str:
    """What is kept of a job that is over."""
    if not result:
        return ""
    kept = json.loads(result)
    steps = f"{kept.get('step', 0)} steps" if kept.get("step") else ""
    return ", ".join(
        part for part in (metrics_text(kept.get("metrics", {})), steps, kept.get("checkpoint", "")) if part
    )


def story_lines(info: JobInfo, now_s: float) -> list[Text]:
    """What happened to it, with clock times."""
    return [story_line(line, now_s) for line in info.story]


def story_line(line: str, now_s: float) -> Text:
    """One entry of a job's story."""
    at_s, state, why = entry(line)
    style = _STYLES.get(state, "yellow")
    return Text.assemble((f"{clock(at_s, now_s)}  ", "dim"), (f"{state:<10} ", style), first_line(why))


def job_document(info: JobInfo) -> dict[str, Any]:
    """A job for programs."""
    story = [dict(zip(("time_s", "state", "why"), entry(line), strict=True)) for line in info.story]
    nodes = [{"node": node, "slots": count} for node, count in info.nodes]
    return {**asdict(info), "ended": info.ended, "nodes": nodes, "story": story}
