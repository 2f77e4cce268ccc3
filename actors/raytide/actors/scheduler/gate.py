"""Who may do what: every call that changes something passes here, and one that is refused is logged."""

from __future__ import annotations

import logging

from raytide.core import Tenant, TenantTree
from raytide.errors import AccessDenied
from raytide.state import StateStore, StoredTenant
from raytide.submission.access import Caller, Credential, may_change, who

logger = logging.getLogger(__name__)


class Gate:
    """Knows tenants and their tokens, as the store has them.

    Args:
        store: Where they are.
        admin_sha256: Hash of the first administrator's token, for a store that has no administrator yet.

    Attributes:
        tree: The tenants.
    """

    def __init__(self, store: StateStore, admin_sha256: str) -> None:
        self._store = store
        if admin_sha256 and not any(stored.admin for stored in store.tenants()):
            store.put_tenant(StoredTenant(Tenant("admin"), admin_sha256, admin=True))
        self.reload()

    def reload(self) -> None:
        """Tenants have changed."""
        stored = self._store.tenants()
        self._credentials = [Credential(s.tenant.tenant, s.token_hash, s.admin) for s in stored if s.token_hash]
        self.tree = TenantTree([s.tenant for s in stored])

    def caller(self, token: str, what: str) -> Caller:
        """Whose token it is.

        Raises:
            AccessDenied: Nobody's.
        """
        try:
            return who(token, self._credentials)
        except AccessDenied as error:
            logger.warning("%s refused: %s", what, error)
            raise

    def admin(self, token: str, what: str) -> None:
        """Let administrators pass.

        Raises:
            AccessDenied: It is no administrator's.
        """
        caller = self.caller(token, what)
        if not caller.admin:
            logger.warning("%s refused to tenant %s", what, caller.tenant)
            raise AccessDenied(f"{what} is for administrators; this token is tenant {caller.tenant}'s")

    def tenant(self, token: str, tenant: str, what: str) -> str:
        """Let a tenant pass, and those above it; returns it, or the token's own if none is named.

        Raises:
            AccessDenied: The token is another one's.
        """
        caller = self.caller(token, what)
        wanted = tenant or caller.tenant
        if not may_change(caller, wanted, self.tree):
            logger.warning("%s for tenant %s refused to tenant %s", what, wanted, caller.tenant)
            raise AccessDenied(f"{what}: tenant {wanted} is not this token's, which is tenant {caller.tenant}'s")
        return wanted
