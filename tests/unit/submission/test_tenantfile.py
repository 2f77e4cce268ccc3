from __future__ import annotations

import pytest

from raytide.core import Tenant
from raytide.errors import ConfigError
from raytide.submission.tenantfile import ListedTenant, parse_tenant_file

A, B = "a" * 64, "b" * 64
TEXT = f"""tenants:
  - {{tenant: research, limit_gpus: 96}}
  - {{tenant: vision, parent: research, token_sha256: {A}}}
  - {{tenant: operators, token_sha256: {B}, admin: true}}
"""


def test_tenants_come_with_their_tokens():
    assert parse_tenant_file(TEXT, "t.yaml") == [
        ListedTenant(Tenant("research", limit_gpus=96)),
        ListedTenant(Tenant("vision", "research"), A),
        ListedTenant(Tenant("operators"), B, admin=True),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace(B, A), "t.yaml, line 4, field 'token_sha256': operators has the token of vision. Give every"),
        (TEXT.replace(B, "rt_x"), "t.yaml, line 4, field 'token_sha256': it is no SHA-256 in 64 small hex digits"),
        (TEXT.replace(B, A.upper()), "t.yaml, line 4, field 'token_sha256': it is no SHA-256"),
        (
            TEXT.replace("token_sha256", "token_sha"),
            "t.yaml, line 3, field 'token_sha': there is no such field. Did you",
        ),
        (TEXT.replace("true", "yes"), "t.yaml, line 4, field 'admin': needs true or false, and 'yes' is text"),
        (TEXT.replace("96", "-1"), "t.yaml, line 2, tenant research: limit_gpus: -1 is below the guaranteed 0"),
        (TEXT.replace("parent: research", "parent: x"), "t.yaml, tenant vision: parent: there is no tenant 'x'"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_field(text, said):
    with pytest.raises(ConfigError) as error:
        parse_tenant_file(text, "t.yaml")
    assert str(error.value).startswith(said)
