"""Kinds of values in a job file, as people write them, with the JSON schema of what they write."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from raytide.durations import PATTERN, parse_duration
from raytide.errors import ConfigError
from raytide.yamlfile.words import shortened

MOST_PROCESSES = 100_000
"""More replicas or GPUs are a slip of the hand."""

_FOREVER_S = 1e12

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_IMPORT_PATH = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
_RANGE = re.compile(r"([0-9]{1,6}):([0-9]{1,6})")
_ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}
_LENGTH = {"type": "string", "pattern": f"^(?:{PATTERN}|[0-9.]+)$", "examples": ["90s", "1h30m"]}
_INSTANT = {
    "type": "string",
    "format": "date-time",
    "pattern": "^[0-9]{4}-.*(Z|[+-][0-9]{2}:?[0-9]{2})$",
    "examples": ["2027-01-31T18:00:00Z"],
}


def _seconds(value: Any) -> Any:
    """Text becomes seconds; whatever is neither text nor a number is left to be refused."""
    if isinstance(value, str):
        return parse_duration("", value)
    if isinstance(value, int | float) and (value is True or not 0 < value < _FOREVER_S):
        problem = f"{shortened(value)} is no length of time"
        raise ConfigError("", problem, "Write a number above 0 with s, m, h or d: 30m, 1h30m")
    return value


def _deadline(value: Any) -> Any:
    """Seconds from the submission, or an instant."""
    if isinstance(value, str) and re.match(r"[0-9]{4}-", value):
        return _instant(value)
    return value if isinstance(value, datetime) else _seconds(value)


def _instant(text: str) -> datetime:
    remedy = "Write 2h for two hours after submission, or an instant such as 2027-01-31T18:00:00Z"
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError("", f"{shortened(text)} is no instant", remedy) from error
    if found.tzinfo is None:
        raise ConfigError("", f"{text!r} has no time zone", remedy)
    return found


def _name(text: str) -> str:
    if re.fullmatch(_NAME, text) is None:
        remedy = "Use up to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        raise ConfigError("", f"{shortened(text)} is no valid name", remedy)
    return text


def _import_path(text: str) -> str:
    if re.fullmatch(_IMPORT_PATH, text) is None:
        problem = f"{shortened(text)} is no import path of a function"
        raise ConfigError("", problem, "Write package.module:function, such as raytide.jobs.digits:loop")
    return text


def _command(text: str) -> str:
    if not text.strip():
        raise ConfigError("", "the command is empty", "Write it as in a shell, such as python train.py")
    return text


def _range(value: Any) -> tuple[int, int]:
    """``1:8``, one number, or what :class:`~raytide.train.config.ScalingConfig` takes: two numbers."""
    ends = _ends(value)
    if ends is None:
        raise ConfigError("", f"{shortened(value)} is no range", "Write 1:8, or one number")
    return _checked_range(*ends)


def _ends(value: Any) -> tuple[int, int] | None:
    if isinstance(value, str):
        found = _RANGE.fullmatch(value)
        return (int(found[1]), int(found[2])) if found else None
    ends = tuple(value) if isinstance(value, list | tuple) else (value, value)
    # Not isinstance: True is an int as well.
    return (ends[0], ends[1]) if len(ends) == 2 and all(type(end) is int for end in ends) else None


def _checked_range(least: int, most: int) -> tuple[int, int]:
    if least < 1:
        raise ConfigError("", f"{shortened(least)} allows no replica", "Give at least 1")
    if least > most:
        raise ConfigError("", f"the least, {shortened(least)}, is above the most, {most}", "Write LEAST:MOST")
    if most > MOST_PROCESSES:
        raise ConfigError("", f"{shortened(most)} is above {MOST_PROCESSES:,}", "Give fewer")
    return least, most


Name = Annotated[str, AfterValidator(_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$"})]
ImportPath = Annotated[
    str, AfterValidator(_import_path), WithJsonSchema({"type": "string", "pattern": f"^{_IMPORT_PATH}$"})
]
Command = Annotated[str, AfterValidator(_command), WithJsonSchema({"type": "string", "pattern": r"\S"})]
Seconds = Annotated[float, BeforeValidator(_seconds), WithJsonSchema({"anyOf": [_ABOVE_0, _LENGTH]})]
Deadline = Annotated[
    float | datetime, BeforeValidator(_deadline), WithJsonSchema({"anyOf": [_ABOVE_0, _LENGTH, _INSTANT]})
]
Range = Annotated[
    tuple[int, int],
    BeforeValidator(_range),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MOST_PROCESSES},
                {"type": "string", "pattern": "^[0-9]{1,6}:[0-9]{1,6}$", "examples": ["1:8"]},
                {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2},
            ]
        }
    ),
]
