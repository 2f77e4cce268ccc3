"""Tenants as a YAML file lists them; whatever is wrong is told with its line and field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from raytide.core.tenants import ROOT, Tenant, TenantTree
from raytide.errors import ConfigError
from raytide.yamlfile import YamlFile


class TenantEntry(BaseModel):
    """A :class:`~raytide.core.tenants.Tenant`, as it is written."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    tenant: str
    parent: str = ROOT
    guaranteed_gpus: int = 0
    limit_gpus: int | None = None
    weight: float = 1.0
    reclaim_after_s: Annotated[float, Field(ge=0)] = 0.0

    def value(self) -> Tenant:
        """The tenant; raises ``ConfigError`` if its numbers make no sense."""
        return Tenant(
            self.tenant, self.parent, self.guaranteed_gpus, self.limit_gpus, self.weight, self.reclaim_after_s
        )


def tree_of(source: YamlFile, entries: Sequence[TenantEntry]) -> TenantTree:
    """The tree of the entries below ``tenants`` of a file.

    Raises:
        ConfigError: A tenant or the tree makes no sense.
    """
    tenants = [_tenant(source, number, entry) for number, entry in enumerate(entries)]
    try:
        return TenantTree(tenants)
    except ConfigError as error:
        raise ConfigError(f"{source.file}, {error.field}", error.problem, error.remedy) from error


def _tenant(source: YamlFile, number: int, entry: TenantEntry) -> Tenant:
    try:
        return entry.value()
    except ConfigError as error:
        raise source.refuse(("tenants", number), error) from error
