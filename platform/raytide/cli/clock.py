"""Times and lengths of time, as people read them."""

from __future__ import annotations

import re
from datetime import datetime

_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_ENTRY = re.compile(r"([0-9.e+]+) s: ([a-z]+): (.*)", re.DOTALL)


def clock(at_s: float, now_s: float) -> str:
    """``10:42:07``, with its date if that is not today's."""
    at, now = (datetime.fromtimestamp(value).astimezone() for value in (at_s, now_s))
    return f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%m-%d %H:%M:%S}"


def length(seconds: float) -> str:
    """``1h30m``: the two largest units."""
    rest = round(max(0.0, seconds))
    parts: list[str] = []
    for unit, unit_s in _UNITS:
        count, rest = divmod(rest, unit_s)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def entry(line: str) -> tuple[float, str, str]:
    """A line of a job's story: when, what it became then, and why."""
    found = _ENTRY.fullmatch(line)
    return (float(found[1]), found[2], found[3]) if found else (0.0, "", line)
