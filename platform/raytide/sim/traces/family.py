"""Families of trace files: how each names the fields of a job, and what its cells hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """What a cell holds.

    Attributes:
        noun: As errors call it.
        parse: Text to value; raises ``ValueError``.
    """

    noun: str
    parse: Callable[[str], Any]

    def accepts(self, text: str) -> bool:
        """Whether ``text`` can be parsed."""
        try:
            self.parse(text)
        except ValueError:
            return False
        return True

    def or_empty(self, value: object) -> Kind:
        """The same, where an empty cell means ``value``."""
        parse = self.parse
        return Kind(f"{self.noun}, or empty", lambda text: parse(text) if text.strip() else value)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        value = float(text)
    if not value.is_integer():
        raise ValueError(text)
    return int(value)


TEXT = Kind("text", str.strip)
NUMBER = Kind("a number", float)
WHOLE = Kind("a whole number", _whole)


@dataclass(frozen=True)
class Column:
    """A column that is read.

    Attributes:
        field: The field of :class:`TraceJob` it fills.
        name: As the file's header calls it.
        kind: What its cells hold.
        is_required: A file without it is of another family.
    """

    field: str
    name: str
    kind: Kind = NUMBER
    is_required: bool = True


@dataclass(frozen=True)
class Family:
    """A family of trace files.

    Attributes:
        name: What errors call it.
        columns: What is read; further columns of a file are ignored. Without a ``job_id`` jobs are numbered
            from 0 in the order of the file, without a ``tenant`` all belong to one.
        is_rebased: Its times are dates; submissions are counted from the first one.
    """

    name: str
    columns: tuple[Column, ...]
    is_rebased: bool = False

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the columns that a file must have."""
        return tuple(dict.fromkeys(column.name for column in self.columns if column.is_required))

    def missing(self, header: Sequence[str]) -> list[str]:
        """The required columns that ``header`` lacks."""
        return [name for name in self.required if name not in header]

    def column_of(self, field: str) -> str:
        """The column that fills ``field``; the field itself if none does."""
        return next((column.name for column in self.columns if column.field == field), field)

    def summary(self) -> str:
        """Its name and its columns, for people."""
        optional = [f"[{column.name}]" for column in self.columns if not column.is_required]
        return f"{self.name}: {', '.join([*self.required, *optional])}"


def closest(header: Sequence[str], families: Iterable[Family]) -> Family:
    """The family that lacks fewest of its columns; among those, the one that reads most."""
    return min(families, key=lambda family: (len(family.missing(header)), -len(family.required)))
