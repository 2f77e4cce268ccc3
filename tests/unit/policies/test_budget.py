from __future__ import annotations

from raytide.core import Controller, Tenant, TenantTree, View, replicas
from raytide.core.events import Submitted
from raytide.policies.budget import Budget
from raytide.policies.fifo import Fifo
from raytide.policies.placement import Count
from support.scheduling import job, nodes

TREE = TenantTree([Tenant("house", limit_gpus=6), Tenant("team", "house", limit_gpus=4), Tenant("other", "house")])


def view(*specs, tenants: TenantTree = TREE) -> View:
    controller = Controller(Fifo(), Count(), nodes(8), tenants)
    controller.tick(0.0, [Submitted(spec) for spec in specs])
    return controller.view()


def test_a_limit_holds_for_a_tenant_and_all_below_it():
    seen = view(job("mine", tenant="team"), job("theirs", tenant="other"), job("free", tenant="stranger"))
    budget = Budget(seen, 8, from_nothing=True)
    mine, theirs, free = (seen.jobs[name] for name in ("mine", "theirs", "free"))
    assert not budget.take_gpus(mine, 5)
    assert budget.take_gpus(mine, 4)
    assert not budget.take_gpus(mine, 1)
    assert not budget.take_gpus(theirs, 3)
    assert budget.take(theirs, replicas(2))
    assert budget.gpus == 2
    assert not budget.take_gpus(free, 3)
    assert budget.take_gpus(free, 2)


def test_what_is_given_back_can_be_taken_again():
    seen = view(job("mine", tenant="team"), job("theirs", tenant="other"))
    budget = Budget(seen, 8, from_nothing=True)
    assert budget.take_gpus(seen.jobs["mine"], 4)
    budget.give_back(seen.jobs["mine"], replicas(3))
    assert budget.gpus == 7
    assert budget.take_gpus(seen.jobs["theirs"], 5)
    assert not budget.take_gpus(seen.jobs["mine"], 1)


def test_what_tenants_hold_counts_unless_all_is_decided_anew():
    seen = view(job("mine", 3, tenant="team"))
    assert not Budget(seen, 5, from_nothing=False).take_gpus(seen.jobs["mine"], 2)
    assert Budget(seen, 5, from_nothing=True).take_gpus(seen.jobs["mine"], 2)


def test_without_limits_only_the_gpus_count():
    seen = view(job("mine", tenant="team"), tenants=TenantTree())
    budget = Budget(seen, 8, from_nothing=True)
    assert not budget.take_gpus(seen.jobs["mine"], 9)
    assert budget.take_gpus(seen.jobs["mine"], 8)
    budget.give_back(seen.jobs["mine"], replicas(8))
    assert budget.gpus == 8


def test_a_reservation_keeps_others_of_the_tenant_away():
    seen = view(job("mine", 5, tenant="house"), job("theirs", tenant="other"), job("free", tenant="stranger"))
    budget = Budget(seen, 8, from_nothing=True)
    budget.reserve_limits(seen.jobs["mine"])
    assert not budget.take_gpus(seen.jobs["theirs"], 2)
    assert budget.take_gpus(seen.jobs["theirs"], 1)
    assert budget.take_gpus(seen.jobs["free"], 7)
