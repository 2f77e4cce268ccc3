"""Reading tables of measurements: every problem names the file, and the column where there is one."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raytide.errors import RaytideError

FloatArray = NDArray[np.float64]

_FIRST_ROW = 2  # what an editor shows: line 1 is the header


class TableError(RaytideError, ValueError):
    """A table of measurements is missing or malformed.

    Attributes:
        path: The file, or the folder that lacks one.
        column: The column; None if the file as a whole is meant.
        problem: What is wrong.
    """

    def __init__(self, path: Path, column: str | None, problem: str) -> None:
        super().__init__(path, column, problem)
        self.path = path
        self.column = column
        self.problem = problem

    def __str__(self) -> str:
        column = f", column {self.column!r}" if self.column else ""
        return f"{self.path}{column}: {self.problem}"


@dataclass(frozen=True)
class Table:
    """A CSV file with a header line and at least one row.

    Attributes:
        path: Where it was read from.
        columns: The cells of each column as text, in file order.
    """

    path: Path
    columns: Mapping[str, Sequence[str]]

    def texts(self, column: str) -> Sequence[str]:
        """The cells of ``column`` as they are.

        Raises:
            TableError: There is no such column.
        """
        if column not in self.columns:
            raise TableError(self.path, column, f"is missing; there are: {', '.join(self.columns)}")
        return self.columns[column]

    def numbers(self, column: str, *, positive: bool = True) -> FloatArray:
        """The cells of ``column`` as numbers, shape (rows,).

        Args:
            column: Its name.
            positive: Refuse zero as well; negative numbers are always refused.

        Raises:
            TableError: There is no such column, or a cell is no finite number of that range.
        """
        values = np.array([self._number(column, row, text) for row, text in enumerate(self.texts(column))])
        refused = np.flatnonzero(values <= 0 if positive else values < 0)
        if refused.size:
            wanted = "positive" if positive else "zero or more"
            raise self.cell_error(column, int(refused[0]), f"must be {wanted}")
        return values

    def cell_error(self, column: str, row: int, problem: str) -> TableError:
        """An error about one cell; ``row`` counts from 0, the message counts lines of the file."""
        text = self.texts(column)[row]
        return TableError(self.path, column, f"line {row + _FIRST_ROW} is {text!r}, {problem}")

    def _number(self, column: str, row: int, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise self.cell_error(column, row, "not a number") from None
        if not math.isfinite(value):
            raise self.cell_error(column, row, "not a finite number")
        return value


def read_table(path: Path) -> Table:
    """Read a CSV file.

    Raises:
        TableError: It cannot be read, has no rows, or a line is shorter or longer than the header.
    """
    header, *rows = _lines(path) or [[]]
    if not rows:
        raise TableError(path, None, "has no rows")
    for line, row in enumerate(rows, _FIRST_ROW):
        if len(row) != len(header):
            raise TableError(path, None, f"line {line} has {len(row)} cells, the header {len(header)}")
    return Table(path, dict(zip(header, zip(*rows, strict=True), strict=True)))


def _lines(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TableError(path, None, f"cannot be read ({reason})") from error
