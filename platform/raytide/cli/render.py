"""How jobs look: tables for people, documents for programs. Nothing here talks to a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from raytide.actors.progress import format_bytes, format_ms
from raytide.actors.views import Event, JobView, MemberView, metrics_text

if TYPE_CHECKING:
    from raytide.cli.moments import Moment
    from raytide.train.result import RequestCost, Result

_PHASE_STYLES = {"running": "green", "succeeded": "bold green", "failed": "bold red"}


def table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """An empty table; the columns of ``numbers`` are right-aligned."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    right = frozenset(numbers)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    return made


# --- status ----------------------------------------------------------------------------------


def jobs_table(views: Sequence[JobView]) -> Table | Text:
    """One line per job."""
    if not views:
        return Text("no job is running")
    numbers = ("epoch", "step", "replicas", "samples/s")
    made = table("job", "phase", *numbers, "metrics", numbers=numbers)
    for view in views:
        made.add_row(
            view.name,
            Text(view.phase, style=_PHASE_STYLES.get(view.phase, "yellow")),
            str(view.epoch),
            str(view.step),
            f"{view.world_size} of {view.least}..{view.most}",
            f"{view.samples_per_s:,.0f}",
            metrics_text(view.metrics),
        )
    return made


def members_table(members: Sequence[MemberView], names: Mapping[str, str]) -> Table:
    """One line per replica."""
    made = table("rank", "replica", "node", "slot", "pid", "busy per step", "where", numbers=("rank", "slot", "pid"))
    for member in members:
        made.add_row(
            "starting" if member.rank < 0 else str(member.rank),
            member.replica,
            node_name(member.node, names),
            str(member.slot),
            str(member.pid or "-"),
            format_ms(member.step_busy_s) if member.step_busy_s else "-",
            member.place,
        )
    return made


def job_footer(view: JobView) -> Text:
    """Where the job's state is, and what it died of."""
    lines = [f"generation {view.generation}, checkpoint: {view.checkpoint or 'none yet'}"]
    if view.error:
        lines.append(view.error)
    return Text("\n".join(lines), style="red" if view.error else "dim")


def view_document(view: JobView, names: Mapping[str, str]) -> dict[str, Any]:
    """A job for programs; its log is what ``events`` is for."""
    document = asdict(view)
    del document["events"]
    document["members"] = [{**asdict(m), "node": node_name(m.node, names), "node_id": m.node} for m in view.members]
    return document


def node_name(node: str, names: Mapping[str, str]) -> str:
    """A node as people call it; a dead one by the beginning of its id."""
    return names.get(node, node[:8])


# --- answers ---------------------------------------------------------------------------------


def cost_text(action: str, cost: RequestCost) -> Text:
    """What a request did and cost, in one line."""
    parts = [f"took {cost.total_s:.1f} s", f"pause {format_ms(cost.pause_s)}"]
    if cost.bytes_moved:
        parts.append(f"{format_bytes(cost.bytes_moved)} moved in {format_ms(cost.transfer_s)}")
    if cost.prepare_s:
        parts.append(f"prepared for {cost.prepare_s:.1f} s while it trained")
    line = Text.assemble((f"{action}: ", "bold"), f"{cost.world_size} replicas  ", (", ".join(parts), "dim"))
    if cost.path:
        line.append(f"\ncheckpoint: {cost.path}")
    return line


def profile_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Throughput at each size, and against one replica of the smallest size measured."""
    numbers = ("replicas", "step", "samples/s", "per replica", "steps measured")
    made = table(*numbers, numbers=numbers)
    for row in rows:
        size, rate = int(row["world_size"]), float(row["samples_per_s"])
        made.add_row(str(size), format_ms(row["step_s"]), f"{rate:,.0f}", f"{rate / size:,.0f}", str(int(row["steps"])))
    return made


def event_document(event: Event) -> dict[str, Any]:
    """An entry of the log for programs."""
    return {**asdict(event), "data": dict(event.data)}


def result_document(result: Result) -> dict[str, Any]:
    """A finished job for programs."""
    return {
        "job": result.job,
        "status": result.status,
        "metrics": dict(result.metrics),
        "resizes": max(0, len(result.resizes) - 1),
        "checkpoint": result.path,
        "generations": result.resizes.to_dict(orient="records"),
    }


def result_text(result: Result) -> Text:
    """A finished job for people."""
    resizes = max(0, len(result.resizes) - 1)
    style = _PHASE_STYLES.get(result.status, "yellow")
    return Text.assemble(
        (f"{result.job} {result.status}", style),
        f"  {metrics_text(result.metrics)}\n",
        f"resizes: {resizes}\n",
        f"checkpoint: {result.path or 'none'}",
    )


def moments_table(story: Sequence[Moment]) -> Table:
    """What happened to a job, and what each change cost."""
    numbers = ("time", "size", "step", "prepared", "pause", "moved", "recovery")
    made = table("time", "event", *numbers[1:], numbers=numbers)
    for moment in story:
        made.add_row(
            f"{moment.time_s:.1f} s",
            moment.label,
            str(moment.world_size),
            str(moment.step or "-"),
            f"{moment.prepare_s:.1f} s" if moment.prepare_s else "-",
            format_ms(moment.pause_s) if moment.pause_s else "-",
            format_bytes(moment.bytes_moved) if moment.bytes_moved else "-",
            f"{moment.recovery_s:.2f} s" if moment.recovery_s else "-",
        )
    return made
