"""Tenants from a YAML document; whatever is wrong is told with its line and field.

::

    tenants:
      - {tenant: research, guaranteed_gpus: 64, limit_gpus: 96}
      - {tenant: vision, parent: research, weight: 2}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from raytide.core.tenants import ROOT, Tenant, TenantTree
from raytide.errors import ConfigError

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_FIELDS = "tenant, parent, guaranteed_gpus, limit_gpus, weight, reclaim_after_s"


class _Entry(BaseModel):
    """A :class:`~raytide.core.tenants.Tenant`, as it is written."""

    model_config = _STRICT

    tenant: str
    parent: str = ROOT
    guaranteed_gpus: int = 0
    limit_gpus: int | None = None
    weight: float = 1.0
    reclaim_after_s: Annotated[float, Field(ge=0)] = 0.0


class _Document(BaseModel):
    model_config = _STRICT

    tenants: list[_Entry]


def parse_tenants(text: str, file: str) -> TenantTree:
    """The tree of a YAML document with the one key ``tenants``: a list whose entries have the fields of a tenant.

    Args:
        text: The document.
        file: Its name, for errors.

    Raises:
        ConfigError: It is malformed, or a tenant or the tree makes no sense.
    """
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        document = _Document.model_validate(yaml.safe_load(text))
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise ConfigError(f"{file}{line}", f"no YAML: {error.problem}", "Write a list of tenants") from error
    except yaml.YAMLError as error:
        raise ConfigError(file, f"no YAML: {str(error).splitlines()[0]}", "Write a list of tenants") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _malformed(file, _line(root, first["loc"]), first) from error
    try:
        return TenantTree([_tenant(root, number, entry) for number, entry in enumerate(document.tenants)])
    except ConfigError as error:
        raise _in_file(file, error) from error


def _tenant(root: yaml.Node | None, number: int, entry: _Entry) -> Tenant:
    try:
        return Tenant(**entry.model_dump())
    except ConfigError as error:
        raise _in_file(f"line {_line(root, ('tenants', number))}", error) from error


def _in_file(where: str, error: ConfigError) -> ConfigError:
    return ConfigError(f"{where}, {error.field}", error.problem, error.remedy)


def _malformed(file: str, line: int, first: Any) -> ConfigError:
    path = first["loc"]
    field = f", field {path[-1]!r}" if path and isinstance(path[-1], str) else ""
    known = _FIELDS if len(path) > 1 else "tenants"
    return ConfigError(f"{file}, line {line}{field}", first["msg"].lower(), f"Known: {known}")


def _line(node: yaml.Node | None, path: Sequence[str | int]) -> int:
    """Where a value stands, or the innermost part of its path that is there; counted from 1."""
    line = 0
    for step in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == step), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
            continue
        else:
            break
        line = node.start_mark.line
    return line + 1
