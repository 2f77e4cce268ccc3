"""The tenants of a platform, with the hashes of their tokens.

::

    tenants:
      - {tenant: research, guaranteed_gpus: 64, token_sha256: 9f86d08...}
      - {tenant: operators, admin: true, token_sha256: 60303ae...}
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, WithJsonSchema

from raytide.core.quotas import TenantEntry, tree_of
from raytide.core.tenants import Tenant
from raytide.errors import ConfigError
from raytide.submission.parts import STRICT
from raytide.yamlfile import YamlFile, parse_yaml


class ListedTenant(NamedTuple):
    """A tenant, as the file has it.

    Attributes:
        tenant: Its quota, and where it is in the tree.
        token_sha256: Hash of its token; empty if it has none.
        admin: Its token may do all.
    """

    tenant: Tenant
    token_sha256: str = ""
    admin: bool = False


def _hash(text: str) -> str:
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        remedy = "Write the hash of the token, never the token itself"
        raise ConfigError("", "it is no SHA-256 in 64 small hex digits", remedy)
    return text


Sha256 = Annotated[str, AfterValidator(_hash), WithJsonSchema({"type": "string", "pattern": "^[0-9a-f]{64}$"})]


class _Entry(TenantEntry):
    model_config = STRICT

    token_sha256: Sha256 | None = None
    """SHA-256 of its token, in hex."""
    admin: bool = False
    """Its token may change every tenant's jobs."""


class TenantsDocument(BaseModel):
    """The tenants of a platform."""

    model_config = STRICT

    tenants: list[_Entry]
    """Every tenant once, in any order."""


def parse_tenant_file(text: str, file: str) -> list[ListedTenant]:
    """The tenants of a YAML document, which make a tree.

    Args:
        text: The document.
        file: Its name, for errors.

    Raises:
        ConfigError: It is malformed, a tenant or the tree makes no sense, or two tenants have one token.
    """
    source = parse_yaml(text, file)
    entries = source.read(TenantsDocument).tenants
    _check_tokens(source, entries)
    tenants = tree_of(source, entries).tenants
    return [
        ListedTenant(tenant, entry.token_sha256 or "", entry.admin)
        for tenant, entry in zip(tenants, entries, strict=True)
    ]


def _check_tokens(source: YamlFile, entries: list[_Entry]) -> None:
    owner: dict[str, str] = {}
    for number, entry in enumerate(entries):
        token = entry.token_sha256
        if token is None:
            continue
        if token in owner:
            problem = f"{entry.tenant} has the token of {owner[token]}"
            error = ConfigError("field 'token_sha256'", problem, "Give every tenant a token of its own")
            raise source.refuse(("tenants", number, "token_sha256"), error)
        owner[token] = entry.tenant
