"""Events, commands and the values in them as JSON text, and back.

Different events may have the same fields (``Started`` and ``Resized``), so each travels with its name. Infinite
floats are written as Python's own ``Infinity``. All text is ASCII without line breaks, which every database stores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import GenericAlias
from typing import Any, TypeVar, get_args

from pydantic import ConfigDict, TypeAdapter

from raytide.core.commands import Command
from raytide.core.events import Event

Value = TypeVar("Value")

_EVENTS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}
_COMMANDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Command)}
_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def dumps(value: object) -> str:
    """A frozen dataclass (a spec, a past, a node, ...) as one line."""
    adapter = _adapter(type(value))
    try:
        text = adapter.dump_json([value]).decode("ascii")
    except ValueError:  # a text that is not ASCII, or not even Unicode, as names of files need not be
        text = json.dumps(adapter.dump_python([value], mode="json"), separators=(",", ":"))
    return text[1:-1]


def loads(kind: type[Value], text: str) -> Value:
    """The value of this type that :func:`dumps` wrote; raises ``pydantic.ValidationError`` for anything else."""
    return _validated(kind, json.loads(text))


def dumps_event(event: Event) -> str:
    """An event as one line."""
    return _seal(event)


def loads_event(text: str) -> Event:
    """The event that :func:`dumps_event` wrote.

    Raises:
        KeyError: There is no event of this name.
        pydantic.ValidationError: Its fields are others.
    """
    event: Event = _open(text, _EVENTS)
    return event


def dumps_command(command: Command) -> str:
    """A command as one line."""
    return _seal(command)


def loads_command(text: str) -> Command:
    """The command that :func:`dumps_command` wrote; errors as of :func:`loads_event`."""
    command: Command = _open(text, _COMMANDS)
    return command


def _seal(value: object) -> str:
    return f'{{"type":"{type(value).__name__}","value":{dumps(value)}}}'


def _open(text: str, kinds: Mapping[str, type]) -> Any:
    sealed = json.loads(text)
    return _validated(kinds[sealed["type"]], sealed["value"])


def _validated(kind: type[Value], fields: object) -> Value:
    value: Value = _adapter(kind).validate_python([fields])[0]
    return value


def _adapter(kind: type) -> TypeAdapter[Any]:
    """Of a list with one such value: pydantic takes no settings for a dataclass itself, but for what it is in."""
    found = _ADAPTERS.get(kind)
    if found is None:
        several: Any = GenericAlias(list, kind)
        found = _ADAPTERS[kind] = TypeAdapter(several, config=ConfigDict(ser_json_inf_nan="constants"))
    return found
