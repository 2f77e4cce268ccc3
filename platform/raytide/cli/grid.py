"""The cluster as a picture: a row for each node, a cell for each slot, a colour for each tenant, letters for jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, product
from string import ascii_uppercase
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from raytide.actors.scheduler.info import JobInfo, NodeInfo, PlatformInfo

COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#edc948", "#ff9da7")
"""Told apart also by those who see fewer colours; more tenants than colours share them."""

FREE, TAKEN, SHUT = "·", "░", "-"
_CELL, _ROW = 3, 16
"""Characters of a slot, and slots on a line."""

_NAME = 20
"""Characters of a node's name that are shown."""


def job_keys(jobs: Sequence[JobInfo]) -> dict[str, str]:
    """Letters by which the picture names jobs that hold slots."""
    letters = ("".join(found) for length in count(1) for found in product(ascii_uppercase, repeat=length))
    return dict(zip((job.job for job in jobs if job.gpus), letters, strict=False))


def held_by_job(info: PlatformInfo) -> Counter[str]:
    """Slots that each job holds; while it is resized, those that it will leave and those that it will have."""
    holds: Counter[str] = Counter()
    for node in info.nodes:
        holds.update(dict(node.held))
    return holds


def tenant_colours(info: PlatformInfo) -> dict[str, str]:
    """A colour for each tenant with a job."""
    tenants = sorted({job.tenant for job in info.jobs})
    return {tenant: COLOURS[place % len(COLOURS)] for place, tenant in enumerate(tenants)}


def grid(info: PlatformInfo, most_rows: int, width: int) -> Table:
    """The picture, of so many nodes as there is room for, in as many columns as that takes."""
    columns = min(_columns(info, width), -(-len(info.nodes) // most_rows))
    room = most_rows * columns
    shown = info.nodes if len(info.nodes) <= room else info.nodes[: room - 1]
    keys, colours = job_keys(info.jobs), tenant_colours(info)
    by_job = {job.job: colours[job.tenant] for job in info.jobs}
    made = Table.grid(padding=(0, 1))
    for _ in range(columns):
        made.add_column(no_wrap=True, overflow="ellipsis", max_width=_NAME)
        made.add_column(justify="right", style="dim", no_wrap=True)
        made.add_column(no_wrap=True)
    rows = [_row(node, keys, by_job) for node in shown]
    if len(shown) < len(info.nodes):
        rows.append([Text(f"and {len(info.nodes) - len(shown)} more", style="dim"), Text(), Text()])
    height = -(-len(rows) // columns) if columns else 0
    for place in range(height):
        made.add_row(*(cell for row in rows[place::height] for cell in row))
    return made


def _columns(info: PlatformInfo, width: int) -> int:
    names = max((min(_NAME, len(node.name)) for node in info.nodes), default=0)
    slots = max((min(_ROW, node.slots) for node in info.nodes), default=0)
    return max(1, width // (names + len(" 16/16 ") + _CELL * slots + 1))


def _row(node: NodeInfo, keys: Mapping[str, str], colours: Mapping[str, str]) -> list[Text]:
    held = sum(slots for _, slots in node.held)
    cells = list(_cells(node, keys, colours))
    lines = [Text().join(cells[start : start + _ROW]) for start in range(0, len(cells), _ROW)]
    return [Text(node.name, style="" if node.open else "yellow"), Text(f"{held}/{node.slots}"), Text("\n").join(lines)]


def legend(info: PlatformInfo) -> Text:
    """What the colours and signs mean, with the slots of each tenant."""
    parts, holds = [], held_by_job(info)
    for tenant, colour in tenant_colours(info).items():
        held = sum(holds[job.job] for job in info.jobs if job.tenant == tenant)
        parts.append(Text.assemble(("  ", f"on {colour}"), f" {tenant} {held}"))
    parts.append(Text(f"{FREE} free  {TAKEN} used by others  {SHUT} draining", style="dim"))
    line = Text("   ").join(parts)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _cells(node: NodeInfo, keys: Mapping[str, str], colours: Mapping[str, str]) -> Iterator[Text]:
    for job, slots in node.held:
        for _ in range(slots):
            yield Text(f"{keys.get(job, '?'):^{_CELL}}", style=f"bold black on {colours.get(job, 'white')}")
    rest = node.slots - sum(slots for _, slots in node.held)
    taken = min(rest, node.taken)
    for sign in TAKEN * taken + (FREE if node.open else SHUT) * (rest - taken):
        yield Text(f"{sign:^{_CELL}}", style="dim")
