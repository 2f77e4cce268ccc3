"""Lengths of time as people write them: ``90``, ``90s``, ``30m``, ``1h30m``, ``2d``."""

from __future__ import annotations

import re

from raytide.errors import ConfigError

_UNITS_S = (("d", 86_400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
PATTERN = "".join(rf"(?:{_NUMBER}{unit})?" for unit, _ in _UNITS_S)
_COMPOUND, _PLAIN = re.compile(PATTERN), re.compile(_NUMBER)


def parse_duration(option: str, text: str) -> float:
    """Seconds of a length of time, which is above 0; a number without a unit is one of seconds.

    Args:
        option: What it is the length of, for errors.
        text: What somebody wrote.

    Raises:
        ConfigError: It is none, or no time at all.
    """
    if plain := _PLAIN.fullmatch(text):
        seconds = float(plain[1])
    elif compound := _COMPOUND.fullmatch(text):
        parts = zip(compound.groups(default="0"), _UNITS_S, strict=True)
        seconds = sum(float(number) * unit_s for number, (_, unit_s) in parts)
    else:
        seconds = 0.0
    if not seconds:
        remedy = "Write a number above 0 with s, m, h or d: 30m, 1h30m"
        raise ConfigError(option, f"{text[:60]!r} is no length of time", remedy)
    return seconds
