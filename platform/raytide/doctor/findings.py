"""What was found, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warn", "bad"]
"""``bad``: jobs will fail. ``warn``: some will, or slowly."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: The thing.
        level: How it is.
        detail: What was seen.
        remedy: What to do; empty where nothing is wrong.
    """

    what: str
    level: Level
    detail: str
    remedy: str = ""


def ok(what: str, detail: str) -> Finding:
    """Nothing is wrong with it."""
    return Finding(what, "ok", detail)


def warn(what: str, detail: str, remedy: str) -> Finding:
    """Some jobs will fail, or be slow."""
    return Finding(what, "warn", detail, remedy)


def bad(what: str, detail: str, remedy: str) -> Finding:
    """Jobs will fail."""
    return Finding(what, "bad", detail, remedy)
