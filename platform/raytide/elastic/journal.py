"""A job's state as JSON text, and back.

Most of it has one type per field, which is all that pydantic needs. The outbox does not: messages
of different types may have the same fields (``Fence`` and ``Demote``), so each travels with its name.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter

from raytide.elastic.effects import Effect, Tell
from raytide.elastic.messages import ToReplica
from raytide.elastic.state import JobState

_EFFECTS: dict[str, type] = {t.__name__: t for t in get_args(Effect)}
_MESSAGES: dict[str, type] = {t.__name__: t for t in get_args(ToReplica)}


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def dumps(state: JobState) -> str:
    """The whole state as one line of JSON."""
    fields = _adapter(JobState).dump_python(replace(state, outbox=()), mode="json")
    fields["outbox"] = [_seal(effect) for effect in state.outbox]
    return json.dumps(fields, separators=(",", ":"))


def loads(text: str) -> JobState:
    """The state that :func:`dumps` wrote; raises ``pydantic.ValidationError`` for anything else."""
    fields = json.loads(text)
    outbox = tuple(_open(sealed) for sealed in fields.pop("outbox", ()))
    state: JobState = _adapter(JobState).validate_python(fields)
    state.outbox = outbox
    return state


def _seal(effect: Effect) -> dict[str, object]:
    if isinstance(effect, Tell):
        message = effect.message
        return {"type": "Tell", "replica": effect.replica, "message": _named(message, type(message))}
    return _named(effect, type(effect))


def _named(value: object, kind: type) -> dict[str, object]:
    return {"type": kind.__name__, "value": _adapter(kind).dump_python(value, mode="json")}


def _open(sealed: dict[str, Any]) -> Effect:
    if sealed["type"] == "Tell":
        inner = sealed["message"]
        return Tell(sealed["replica"], _adapter(_MESSAGES[inner["type"]]).validate_python(inner["value"]))
    effect: Effect = _adapter(_EFFECTS[sealed["type"]]).validate_python(sealed["value"])
    return effect
