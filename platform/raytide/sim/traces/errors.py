"""What can be wrong with a trace."""

from __future__ import annotations

from raytide.errors import RaytideError


class TraceError(RaytideError, ValueError):
    """A trace cannot be read.

    Args:
        file: The file as it was given; a member of an archive follows after a colon.
        line: The line, counted from 1 as editors do; None if the whole file is meant.
        column: The column as the file calls it; None if the whole line is meant.
        problem: What is wrong there.
        remedy: What to do.
    """

    def __init__(self, file: str, line: int | None, column: str | None, problem: str, remedy: str) -> None:
        super().__init__(file, line, column, problem, remedy)
        self.file = file
        self.line = line
        self.column = column
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        column = "" if self.column is None else f", column {self.column!r}"
        return f"{self.file}{line}{column}: {self.problem}. {self.remedy}"
