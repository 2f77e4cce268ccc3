"""Settings as people write them on one line: ``mtbf=6h,repair=30m``."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from raytide.errors import ConfigError


def parse_settings(option: str, text: str, known: Mapping[str, str]) -> dict[str, str]:
    """``key=value`` with commas between them.

    Args:
        option: What they are settings of, for errors.
        text: What somebody wrote.
        known: Keys, each with an example of a value.

    Raises:
        ConfigError: A key is unknown, given twice, or without a value.
    """
    found: dict[str, str] = {}
    example = ",".join(f"{key}={value}" for key, value in known.items())
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise ConfigError(option, f"{key!r} is no setting", f"{hint}Known: {example}")
        if not (equals and value) or key in found:
            raise ConfigError(option, f"{key} is given {'twice' if key in found else 'no value'}", f"Write {example}")
        found[key] = value
    return found


def parse_count(option: str, text: str) -> int:
    """A whole number above 0.

    Raises:
        ConfigError: It is none.
    """
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ConfigError(option, f"{text!r} is no count", "Give a whole number above 0")
    return int(text)
