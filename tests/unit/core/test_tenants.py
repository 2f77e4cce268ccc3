from __future__ import annotations

import pytest

from raytide.core import Tenant, TenantTree
from raytide.errors import ConfigError

TREE = TenantTree([Tenant("lab", limit_gpus=8), Tenant("vision", "lab", limit_gpus=6), Tenant("speech", "lab")])


def test_paths_lead_from_a_tenant_to_the_root():
    assert TREE.path("vision") == ("vision", "lab")
    assert TREE.path("lab") == ("lab",)


def test_every_limit_on_the_way_counts():
    assert TREE.limiting("vision", {"vision": 4, "lab": 4}, 2) is None
    assert TREE.limiting("vision", {"vision": 4, "lab": 4}, 3) == TREE["vision"]
    assert TREE.limiting("speech", {"lab": 7}, 2) == TREE["lab"]
    assert TREE.limiting("anybody", {"anybody": 1000}, 1) is None


def test_a_tenant_that_is_not_listed_is_a_child_of_the_root():
    assert TREE["anybody"] == Tenant("anybody")
    assert TREE.path("anybody") == ("anybody",)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Tenant(""), "the empty name is the root's"),
        (lambda: Tenant("a", guaranteed_gpus=-1), "tenant a: guaranteed_gpus: -1 is negative"),
        (lambda: Tenant("a", guaranteed_gpus=4, limit_gpus=3), "tenant a: limit_gpus: 3 is below the guaranteed 4"),
        (lambda: Tenant("a", weight=0.0), "tenant a: weight: 0.0 is not positive"),
        (lambda: TenantTree([Tenant("a"), Tenant("a")]), "tenant a: is listed twice"),
        (lambda: TenantTree([Tenant("a", "b")]), "tenant a: parent: there is no tenant 'b'"),
        (lambda: TenantTree([Tenant("a", "b"), Tenant("b", "a")]), "is above and below it"),
        (lambda: TenantTree([Tenant("a", "a")]), "is above and below it"),
        (lambda: TenantTree([Tenant("c", "a"), Tenant("a", "b"), Tenant("b", "a")]), "is above and below it"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ConfigError) as said:
        make()
    assert words in str(said.value)
