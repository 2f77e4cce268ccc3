"""Arguments that several commands take, and how they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

import typer

from raytide.errors import ConfigError

JobArgument = Annotated[
    str | None,
    typer.Argument(metavar="JOB", show_default=False, help="The job; may be left out where exactly one runs."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output.")]

FirstWord = Annotated[
    str | None,
    typer.Argument(metavar="JOB", show_default=False, help="May be left out where exactly one job runs."),
]

WORDS = {"ignore_unknown_options": True}
"""For commands that take ``-1`` as a word; their words are checked one by one."""


@dataclass(frozen=True)
class Change:
    """A new replica count: ``by`` so many more or fewer, or ``to`` so many."""

    by: int = 0
    to: int | None = None

    def delta(self, world_size: int) -> int:
        """Replicas to add; negative to take out."""
        return self.by if self.to is None else self.to - world_size


def parse_change(text: str) -> Change:
    """``+2`` adds two, ``-1`` takes one out, ``3`` makes it three."""
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ConfigError("scale", f"{text!r} is no change of size", "Write +2, -1, or the size itself, such as 3")
    number = int(text)
    if text[0] in "+-":
        return Change(by=number)
    if number == 0:
        raise ConfigError("scale", "a job has at least 1 replica", "Use `raytide suspend` to give back every slot")
    return Change(to=number)


def parse_bounds(text: str) -> tuple[int, int] | None:
    """``1:8``; None for anything else."""
    found = re.fullmatch(r"(\d{1,6}):(\d{1,6})", text)
    return (int(found[1]), int(found[2])) if found else None


def split_words(command: str, first: str | None, second: str | None, meaning: str) -> tuple[str | None, str]:
    """``[JOB] WORD``: a job that may be left out, and one more word."""
    if first is None:
        raise ConfigError(command, f"{meaning} is missing", f"Write: raytide {command} [JOB] {meaning}")
    return (None, first) if second is None else (first, second)


def parse_rank(text: str) -> int:
    """A rank."""
    if not text.isdigit():
        raise ConfigError("rank", f"{text!r} is no rank", "Give a number from 0, as `raytide status` shows it")
    return int(text)


def parse_ranks(text: str | None) -> tuple[int, ...]:
    """``1,2``."""
    return tuple(parse_rank(part) for part in split_list(text))


def split_list(text: str | None) -> tuple[str, ...]:
    """``node-a,node-b``."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
