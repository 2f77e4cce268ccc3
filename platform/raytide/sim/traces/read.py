"""One function for every trace: the format is recognised."""

from __future__ import annotations

from pathlib import Path

from raytide.sim.traces.default import DEFAULT
from raytide.sim.traces.elasticflow import ELASTICFLOW, ELASTICFLOW_MICROSOFT
from raytide.sim.traces.errors import TraceError
from raytide.sim.traces.family import Family, closest
from raytide.sim.traces.gavel import GAVEL, SUFFIX, read_gavel
from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.microsoft import MICROSOFT
from raytide.sim.traces.philly import PHILLY
from raytide.sim.traces.pollux import POLLUX
from raytide.sim.traces.source import open_source, refuse_member
from raytide.sim.traces.table import Table, open_table
from raytide.sim.traces.tiresias import TIRESIAS

FAMILIES = (DEFAULT, PHILLY, POLLUX, ELASTICFLOW, ELASTICFLOW_MICROSOFT, MICROSOFT, TIRESIAS)
"""Those that a header tells apart."""


def read_trace(path: str | Path, member: str | None = None) -> list[TraceJob]:
    """Read a trace of any known format, sorted by submission (those of one instant as the file has them).

    Args:
        path: A ``.csv`` whose header tells the format, a ``.trace`` of Gavel, or an archive (``.tar.gz``).
        member: The file to take from an archive.

    Raises:
        TraceError: The format is unknown (the message lists the known ones), or a row is malformed.
        OSError: The file cannot be opened.
    """
    if Path(path).suffix == SUFFIX:
        refuse_member(path, member)
        return read_gavel(path)
    with open_source(path, member) as source:
        table = open_table(source)
        family = closest(table.header, FAMILIES)
        if family.missing(table.header):
            raise _unknown(table, family)
        return table.jobs(family)


def _unknown(table: Table, nearest: Family) -> TraceError:
    lacks = ", ".join(nearest.missing(table.header))
    problem = f"no known format has the columns {', '.join(table.header)}; the nearest, {nearest.name}, has {lacks} too"
    known = "".join(f"\n  {family.summary()}" for family in (*FAMILIES, GAVEL))
    return TraceError(table.label, table.header_line, None, problem, f"Known formats:{known}")
