"""Who may change what: tokens, and the tenants they belong to."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from raytide.core.model import TenantId
from raytide.core.tenants import TenantTree
from raytide.errors import AccessDenied

PREFIX = "rt_"
"""By which a token is recognised in a log or a repository where it should not be."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept of a tenant's token.

    Attributes:
        tenant: Whose it is.
        token_sha256: :func:`hash_token` of it; empty for a tenant that has none.
        admin: Its bearer may do all.
    """

    tenant: TenantId
    token_sha256: str
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, once its token is known.

    Attributes:
        tenant: In whose name.
        admin: It may do all.
    """

    tenant: TenantId
    admin: bool = False


def make_token() -> str:
    """A new token of 32 random bytes. It is shown once; only its hash is kept."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """SHA-256 of a token in hex. A plain hash will do: nobody guesses 32 random bytes."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def who(token: str, credentials: Iterable[Credential]) -> Caller:
    """Whose token it is.

    The time it takes tells nothing: every hash is compared, and in full.

    Raises:
        AccessDenied: It is nobody's.
    """
    given, found = hash_token(token), None
    for credential in credentials:
        if hmac.compare_digest(given, credential.token_sha256):
            found = credential
    if found is None:
        problem = "the token is no tenant's" if token else "no token was given"
        raise AccessDenied(f"{problem}: set RAYTIDE_TOKEN, or ask whoever runs the platform for one")
    return Caller(found.tenant, found.admin)


def may_change(caller: Caller, job_tenant: TenantId, tree: TenantTree) -> bool:
    """Whether a caller may change a tenant's jobs: its own, those of tenants below it, an admin all."""
    return caller.admin or caller.tenant in tree.path(job_tenant)
