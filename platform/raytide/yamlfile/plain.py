"""Which YAML is read: what JSON could say as well.

Scalars are those of YAML 1.2. Under 1.1, which PyYAML follows otherwise, the text ``1:8`` is the number 68, ``1e-3``
is text, and ``no`` is false.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from raytide.errors import ConfigError

MAX_VALUES, MAX_DEPTH = 200_000, 40
"""Larger documents are refused: an alias can make a few lines stand for billions of values."""

_TAG = "tag:yaml.org,2002:"
_TEXT, _MERGE = f"{_TAG}str", f"{_TAG}merge"
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.inf)|\.nan",
        list("-+0123456789."),
    ),
    ("merge", r"<<", ["<"]),
)
_KNOWN_TAGS = {_TAG + name for name in ("str", "seq", "map", *(name for name, _, _ in _SCALARS))}


class PlainLoader(yaml.SafeLoader):
    """Plain values only: text, numbers, booleans, null, lists and mappings."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's way to say it


for _name, _pattern, _first in _SCALARS:
    PlainLoader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), _first)


def check_plain(loader: PlainLoader, root: yaml.Node | None, file: str) -> None:
    """Refuse what :func:`json.loads` could not give, before values are made of it."""

    def refuse(node: yaml.Node, problem: str, remedy: str) -> ConfigError:
        return ConfigError(f"{file}, line {node.start_mark.line + 1}", problem, remedy)

    sizes: dict[int, int] = {}

    def size(node: yaml.Node, depth: int) -> int:
        """Values below a node, aliases written out."""
        if depth > MAX_DEPTH:  # also where an alias is part of what it stands for
            raise refuse(node, f"it is nested more than {MAX_DEPTH} deep", "Write it flatter")
        if id(node) in sizes:
            return sizes[id(node)]
        if problem := _strange(loader, node):
            raise refuse(node, *problem)
        total = 1 + sum(size(below, depth + 1) for below in _below(node))
        if total > MAX_VALUES:
            raise refuse(node, f"it stands for more than {MAX_VALUES:,} values", "Write less, with fewer aliases")
        sizes[id(node)] = total
        return total

    if root is not None:
        size(root, 0)


def _below(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _strange(loader: PlainLoader, node: yaml.Node) -> tuple[str, str] | None:
    """What is wrong with one node, and what to do; None if nothing is."""
    if node.tag not in _KNOWN_TAGS:
        return f"the tag {node.tag} is not known here", "Leave the tag out"
    if isinstance(node, yaml.MappingNode):
        return _strange_keys([key for key, _ in node.value])
    if isinstance(node, yaml.ScalarNode):
        plain = loader.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]  # PyYAML's stubs
        if node.tag not in {_TEXT, plain}:
            return f"{node.value!r} is no {node.tag.removeprefix(_TAG)}", "Leave the tag out"
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in node.value):
            return "it has a character that no text has (zero, or half of a surrogate pair)", "Leave it out"
    return None


def _strange_keys(keys: Sequence[yaml.Node]) -> tuple[str, str] | None:
    seen = set()
    for key in keys:
        if key.tag not in {_TEXT, _MERGE} or not isinstance(key, yaml.ScalarNode):
            said = f"the key {key.value!r}" if isinstance(key, yaml.ScalarNode) else "a key"
            return f"{said} is no text", "Write it in quotes"
        if key.value in seen:
            return f"the field {key.value!r} stands twice in it", "Keep one of them"
        seen.add(key.value)
    return None
