"""What is wrong with a document, in words, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

_NEEDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}

_BOUNDS = {
    "greater_than": ("is not above", "gt", "Give more than"),
    "greater_than_equal": ("is below", "ge", "Give at least"),
    "less_than_equal": ("is above", "le", "Give at most"),
}


def in_plain_words(found: Any, fields: str) -> tuple[str, str]:
    """Problem and remedy of a mistake that pydantic found.

    Args:
        found: One of ``ValidationError.errors()``.
        fields: Names of the fields that belong there, if a mapping does.
    """
    kind, value, context = found["type"], shortened(found["input"]), found.get("ctx", {})
    if kind == "literal_error":
        return f"{value} is not known", f"Write {context['expected'].replace(chr(39), '')}"
    if kind in _BOUNDS:
        verb, bound, advice = _BOUNDS[kind]
        return f"{value} {verb} {_number(context[bound])}", f"{advice} {_number(context[bound])}"
    if kind == "finite_number":
        return f"{value} is no finite number", "Give a finite one"
    if kind in _NEEDS:
        return _wrong_kind(_NEEDS[kind], found["input"], fields)
    message = found["msg"]
    return f"{value} does not fit: {message[:1].lower()}{message[1:]}", "Give another value"


def _wrong_kind(needs: str, value: Any, fields: str) -> tuple[str, str]:
    kind = "nothing" if value is None else _KINDS.get(type(value), "something else")
    if needs == "a number" and isinstance(value, int) and not isinstance(value, bool):
        return f"{shortened(value)} is too large", "Give a smaller one"
    simple = isinstance(value, int | float | str)
    given = f"{shortened(value)} is {kind}" if simple else f"there is {kind}"
    quote = needs == "text" and simple
    remedy = "Write it in quotes" if quote else f"Known: {fields}" if fields else f"Write {needs}"
    return f"needs {needs}, and {given}", remedy


def _number(bound: float) -> str:
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"


def shortened(value: Any) -> str:
    """A value as it may stand in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The remedy for an unknown name: the closest known one, and all of them."""
    near = get_close_matches(name, known, n=1)
    return f"{f'Did you mean {near[0]}? ' if near else ''}Known: {', '.join(known)}"


def fields_at(model: Any, path: Sequence[str | int]) -> list[str]:
    """Names of the fields of the model that stands at ``path`` inside another; none if no model does."""
    for step in path:
        models = _models(model)
        if isinstance(step, str) and models:
            field = models[0].model_fields.get(step)
            model = None if field is None else field.annotation
    models = _models(model)
    return list(models[0].model_fields) if models else []


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models in a type such as ``list[Entry]`` or ``Entry | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]
