from __future__ import annotations

from raytide.core import Tenant, TenantTree
from raytide.policies.fair import HALF_LIFE_S, Fair
from support.scheduling import Stage, job, play


def many(tenant: str, count: int, gpus: int = 1, at: float = 0.0, **more):
    return [job(f"{tenant}{i}", gpus, at=at, tenant=tenant, **more) for i in range(count)]


def gpus_of(scene: Stage, *tenants: str) -> list[int]:
    return [scene.controller.table.usage[tenant] for tenant in tenants]


def test_equal_tenants_share_equally():
    scene = Stage(Fair(), 8)
    scene.at(0, *many("a", 20), *many("b", 20))
    assert gpus_of(scene, "a", "b") == [4, 4]


def test_weights_count():
    scene = Stage(Fair(), 8, tenants=TenantTree([Tenant("a", weight=3.0), Tenant("b")]))
    scene.at(0, *many("a", 20), *many("b", 20))
    assert gpus_of(scene, "a", "b") == [6, 2]


def test_the_tree_is_shared_from_the_root_downwards():
    tree = TenantTree([Tenant("lab"), Tenant("vision", "lab"), Tenant("speech", "lab"), Tenant("solo")])
    scene = Stage(Fair(), 8, tenants=tree)
    scene.at(0, *many("vision", 20), *many("speech", 20), *many("solo", 20))
    assert gpus_of(scene, "lab", "solo", "vision", "speech") == [4, 4, 2, 2]


def test_what_a_tenant_does_not_want_others_use():
    scene = Stage(Fair(), 8)
    scene.at(0, *many("a", 20), *many("b", 1))
    assert gpus_of(scene, "a", "b") == [7, 1]


def test_who_used_much_before_waits_until_that_has_faded():
    later_s = HALF_LIFE_S / 10
    then = [f"hog{i}" for i in range(8)]
    then += [job(f"more{i}", tenant="hog", at=later_s) for i in range(8)] + many("new", 8, at=later_s)
    for half_life_s, expected in ((HALF_LIFE_S, [4, 4]), (later_s, [0, 8])):
        scene = Stage(Fair(half_life_s), 8)
        scene.at(0, *many("hog", 8))
        scene.at(later_s, *then)
        assert gpus_of(scene, "hog", "new") == expected


def test_priority_orders_a_tenants_own_jobs():
    scene = Stage(Fair(), 2)
    scene.at(0, job("low", 2, tenant="a"), job("high", 2, tenant="a", priority=5))
    assert scene.held() == {"high": 2}


GUARANTEED = TenantTree([Tenant("owner", guaranteed_gpus=4), Tenant("guest", reclaim_after_s=30.0)])


def test_a_guarantee_is_lent_and_taken_back_after_the_minimum_run_time():
    play(
        Stage(Fair(), 8, tenants=GUARANTEED),
        [
            (0, many("guest", 2, 4), {"guest0": 4, "guest1": 4}),
            (10, many("owner", 1, 4, at=10), {"guest0": 4, "guest1": 4}),
            (30, [], {"guest0": 4, "owner0": 4}),
            (50, ["owner0"], {"guest0": 4, "guest1": 4}),
        ],
    )


def test_it_asks_to_be_woken_when_a_borrower_may_be_preempted():
    scene = Stage(Fair(), 8, tenants=GUARANTEED)
    scene.at(0, *many("guest", 2, 4))
    scene.at(10, *many("owner", 1, 4, at=10))
    assert scene.wake_s == 30.0


def test_nobody_is_preempted_for_what_is_not_guaranteed_or_cannot_be_had():
    scene = Stage(Fair(), 8, tenants=GUARANTEED)
    scene.at(0, *many("guest", 2, 4, preemptible=False))
    scene.at(99, *many("owner", 1, 4, at=99), *many("other", 1, 4, at=99))
    assert scene.held() == {"guest0": 4, "guest1": 4}


def test_a_tenant_inside_its_guarantee_is_not_reclaimed_from():
    tree = TenantTree([Tenant("a", guaranteed_gpus=4), Tenant("b", guaranteed_gpus=4)])
    scene = Stage(Fair(), 8, tenants=tree)
    scene.at(0, *many("a", 1, 4), *many("b", 1, 4))
    scene.at(50, *(job("more", 4, tenant="b", at=50),))
    assert scene.held() == {"a0": 4, "b0": 4}
    assert scene.controller.explain("more") == ("tenant b holds 4 of 4 guaranteed GPUs: needs 4 GPUs, 0 of 8 are free")
