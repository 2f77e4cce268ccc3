"""Tenants: a tree of queues with guaranteed quotas, limits and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from raytide.core.model import TenantId
from raytide.errors import ConfigError

ROOT = ""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A queue.

    Attributes:
        tenant: Its id.
        parent: The tenant it belongs to; the root by default.
        guaranteed_gpus: What it gets back from borrowers when it wants it.
        limit_gpus: What it and all below it never exceed; None for no limit.
        weight: Its share of what is left among its siblings.
        reclaim_after_s: A job that borrows runs at least this long before its slots are reclaimed.
    """

    tenant: TenantId
    parent: TenantId = ROOT
    guaranteed_gpus: int = 0
    limit_gpus: int | None = None
    weight: float = 1.0
    reclaim_after_s: float = 0.0

    def __post_init__(self) -> None:
        where = f"tenant {self.tenant}"
        if self.tenant == ROOT:
            raise ConfigError("tenant", "the empty name is the root's", "Give the tenant a name")
        if self.guaranteed_gpus < 0:
            raise ConfigError(f"{where}: guaranteed_gpus", f"{self.guaranteed_gpus} is negative", "Give 0 or more")
        if self.limit_gpus is not None and self.limit_gpus < self.guaranteed_gpus:
            problem = f"{self.limit_gpus} is below the guaranteed {self.guaranteed_gpus}"
            raise ConfigError(f"{where}: limit_gpus", problem, "Raise the limit, or guarantee less")
        if not self.weight > 0:
            raise ConfigError(f"{where}: weight", f"{self.weight} is not positive", "Give a number above 0")


@dataclass(frozen=True)
class TenantTree:
    """All tenants. One that is not listed is a child of the root without guarantee or limit."""

    tenants: Sequence[Tenant] = ()
    _by_id: Mapping[TenantId, Tenant] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_id = {tenant.tenant: tenant for tenant in self.tenants}
        object.__setattr__(self, "_by_id", by_id)
        if len(by_id) != len(self.tenants):
            names = [tenant.tenant for tenant in self.tenants]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"tenant {twice}", "is listed twice", "List every tenant once")
        for tenant in self.tenants:
            self._check(tenant)

    def _check(self, tenant: Tenant) -> None:
        where = f"tenant {tenant.tenant}: parent"
        if tenant.parent != ROOT and tenant.parent not in self._by_id:
            raise ConfigError(where, f"there is no tenant {tenant.parent!r}", "List the parent, or leave it out")
        seen = {tenant.tenant}
        for above in self.path(tenant.tenant)[1:]:
            if above in seen:
                raise ConfigError(where, f"{above!r} is above and below it", "Break the circle")
            seen.add(above)

    def __getitem__(self, tenant: TenantId) -> Tenant:
        return self._by_id.get(tenant) or Tenant(tenant)

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self.tenants)

    def path(self, tenant: TenantId) -> tuple[TenantId, ...]:
        """The tenant and all above it, without the root; at most as many as there are, even in a circle."""
        found = [tenant]
        while (above := self[found[-1]].parent) != ROOT and len(found) <= len(self._by_id):
            found.append(above)
        return tuple(found)

    def limiting(self, tenant: TenantId, usage: Mapping[TenantId, int], more: int) -> Tenant | None:
        """Whose limit ``more`` GPUs for a tenant would break: its own or one above it; None if nobody's.

        Args:
            tenant: Who would get them.
            usage: GPUs that each tenant and all below it hold.
            more: How many it would get.
        """
        for name in self.path(tenant):
            found = self[name]
            if found.limit_gpus is not None and usage.get(name, 0) + more > found.limit_gpus:
                return found
        return None
