from __future__ import annotations

import pytest

from raytide.core import Tenant, TenantTree
from raytide.errors import ConfigError
from raytide.submission.tenantfile import parse_tenant_file

TEXT = """tenants:
  - tenant: research
    guaranteed_gpus: 64
    limit_gpus: 96
  - {tenant: vision, parent: research, weight: 2, reclaim_after_s: 60}
"""


def tree(text: str = TEXT) -> TenantTree:
    """The tenants of a file, without their tokens."""
    return TenantTree([listed.tenant for listed in parse_tenant_file(text, "t.yaml")])


def test_a_tree_is_read():
    research = Tenant("research", guaranteed_gpus=64, limit_gpus=96)
    vision = Tenant("vision", "research", weight=2.0, reclaim_after_s=60.0)
    assert tree() == TenantTree([research, vision])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t.yaml, line 1: "),
        ("tenants: [", "t.yaml, line 1: no YAML"),
        ("a: \x00", "t.yaml, line 1: no YAML"),
        ("tenats: []", "t.yaml, line 1, field 'tenats': there is no such field. Did you mean tenants? Known: tenants"),
        ("tenants: []\nmore: 1", "t.yaml, line 2, field 'more': there is no such field. Known: tenants"),
        (
            TEXT.replace("64", "many"),
            "t.yaml, line 3, field 'guaranteed_gpus': needs a whole number, and 'many' is text",
        ),
        (
            TEXT.replace("limit_gpus", "limit"),
            "t.yaml, line 4, field 'limit': there is no such field. Did you mean limit_gpus?",
        ),
        (TEXT.replace("tenant: research", "parent: x"), "t.yaml, line 2, field 'tenant': is missing"),
        (TEXT.replace("60", "-1"), "t.yaml, line 5, field 'reclaim_after_s': -1 is below 0"),
        (TEXT.replace("weight: 2", "weight: .inf"), "t.yaml, line 5, field 'weight': inf is no finite number"),
        (TEXT.replace("96", "32"), "t.yaml, line 2, tenant research: limit_gpus: 32 is below the guaranteed 64"),
        (TEXT.replace("weight: 2", "weight: 0"), "t.yaml, line 5, tenant vision: weight: 0.0 is not positive"),
        (TEXT.replace("parent: research", "parent: nix"), "t.yaml, tenant vision: parent: there is no tenant 'nix'"),
        (TEXT.replace("vision", "research"), "t.yaml, tenant research: is listed twice"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_field(text, said):
    with pytest.raises(ConfigError) as error:
        tree(text)
    assert str(error.value).startswith(said)
