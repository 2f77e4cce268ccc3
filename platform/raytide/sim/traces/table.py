"""A table of jobs: rows are parsed by the columns of a family, and every mistake keeps its line and column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from pathlib import Path
from typing import Any

from raytide.errors import ConfigError
from raytide.sim.traces.errors import TraceError
from raytide.sim.traces.family import Column, Family, closest
from raytide.sim.traces.job import DEFAULT_TENANT, TraceJob
from raytide.sim.traces.source import Source, open_source

Row = tuple[int, list[str]]
"""Line number and cells."""


@dataclass(frozen=True)
class Table:
    """Rows under a header.

    Attributes:
        label: The file, for errors.
        header_line: Where the header stands.
        header: Names of the columns.
        rows: What follows.
    """

    label: str
    header_line: int
    header: Sequence[str]
    rows: Iterable[Row]

    def jobs(self, family: Family) -> list[TraceJob]:
        """All jobs, by submission; those of one instant as the file has them.

        Columns are parsed one after another, which is fast: of several mistakes, one in an earlier column is told.

        Raises:
            TraceError: A column is missing, or a row is malformed.
        """
        missing = family.missing(self.header)
        if missing:
            remedy = f"A file of the family {family.summary()}"
            raise TraceError(self.label, self.header_line, missing[0], "the column is missing", remedy)
        lines, values = self._parse(family)
        if not lines:
            raise TraceError(self.label, None, None, "it has no jobs", "Give at least one row below the header")
        self._check_ids(family, lines, values.setdefault("job_id", [str(number) for number in range(len(lines))]))
        if family.is_rebased:
            origin = min(values["submit_s"])
            values["submit_s"] = [value - origin for value in values["submit_s"]]
        return sorted(self._build(family, lines, values), key=lambda job: job.submit_s)

    def _parse(self, family: Family) -> tuple[list[int], dict[str, list[Any]]]:
        """The line of every row, and for every field its values."""
        lines: list[int] = []
        flat: list[str] = []  # all cells in one list, not one list a row: far less for the garbage collector to visit
        width = len(self.header)
        for line, cells in self.rows:
            if len(cells) != width:
                raise self._ragged(line, cells)
            lines.append(line)
            flat.extend(cells)
        places = [(column, self.header.index(column.name)) for column in family.columns if column.name in self.header]
        return lines, {column.field: self._parse_column(column, lines, flat[at::width]) for column, at in places}

    def _parse_column(self, column: Column, lines: list[int], cells: Sequence[str]) -> list[Any]:
        try:
            return [*map(column.kind.parse, cells)]
        except ValueError:
            line, cell = next(place for place in zip(lines, cells, strict=True) if not column.kind.accepts(place[1]))
            problem = f"{cell!r} is not {column.kind.noun}"
            raise TraceError(self.label, line, column.name, problem, "Correct it, or leave the row out") from None

    def _ragged(self, line: int, cells: list[str]) -> TraceError:
        column = self.header[len(cells)] if len(cells) < len(self.header) else None
        problem = f"{len(cells)} cells under {len(self.header)} columns"
        return TraceError(self.label, line, column, problem, "Give every column one cell")

    def _check_ids(self, family: Family, lines: list[int], ids: list[str]) -> None:
        if len(set(ids)) == len(ids):
            return
        seen: dict[str, int] = {}
        for line, job_id in zip(lines, ids, strict=True):
            first = seen.setdefault(job_id, line)
            if first != line:
                problem = f"{job_id!r} is the job of line {first} already"
                raise TraceError(self.label, line, family.column_of("job_id"), problem, "Give every job its own id")

    def _build(self, family: Family, lines: list[int], values: dict[str, list[Any]]) -> list[TraceJob]:
        columns = [values.get(name, repeat(default)) for name, default in _UNKNOWN.items()]
        jobs = []
        for line, row in zip(lines, zip(*columns, strict=False), strict=True):
            try:
                jobs.append(TraceJob(*row))
            except ConfigError as error:
                column = family.column_of(error.field.removeprefix("TraceJob."))
                raise TraceError(self.label, line, column, error.problem, error.remedy) from None
        return jobs


_UNKNOWN = {field.name: field.default for field in fields(TraceJob)} | {"tenant": DEFAULT_TENANT, "duration_s": None}
"""What a job has where its family of files does not tell, in the order of the fields."""


def open_table(source: Source) -> Table:
    """Read the header of comma-separated text.

    Raises:
        TraceError: The text is empty.
    """
    rows = source.rows()
    first = next(rows, None)
    if first is None:
        raise TraceError(source.label, None, None, "it is empty", "Give a header and at least one row")
    line, header = first
    return Table(source.label, line, [name.strip() for name in header], rows)


def read_csv(path: str | Path, *families: Family, member: str | None = None) -> list[TraceJob]:
    """Read a file that is of one of ``families``.

    Raises:
        TraceError: A column is missing, or a row is malformed.
        OSError: The file cannot be opened.
    """
    with open_source(path, member) as source:
        table = open_table(source)
        return table.jobs(closest(table.header, families))
