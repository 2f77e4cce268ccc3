"""Scenarios of tide: who holds how many GPUs after each instant."""

from __future__ import annotations

import pytest

from raytide.core import ControllerConfig, Costs, JobSpec, SpeedTable, Tenant, TenantTree
from raytide.core.controller import Controller
from raytide.core.events import NodeJoined, Submitted
from raytide.policies.placement import Pack
from raytide.policies.tide import Tide
from raytide.policies.tide.policy import PATIENCE_S, REVIEW_S
from raytide.sim.simulation import SimJob, Simulation
from raytide.sim.workload import Fixed
from support.scheduling import Stage, job, nodes, play

CONCAVE = SpeedTable({1: 1.0, 2: 1.7, 4: 2.6, 8: 3.2})
LINEAR = SpeedTable({1: 1.0, 8: 8.0})
SPEEDS = {"concave": CONCAVE, "linear": LINEAR}


def elastic(
    name: str, *, at: float = 0.0, work: float = 1000.0, model: str = "concave", to: int = 8, **more
) -> JobSpec:
    return job(name, 1, to=to, at=at, work=work, model=model, **more)


def stage(*gpus: int, **options) -> Stage:
    return Stage(Tide(), *gpus, speeds=SPEEDS, **options)


def test_alone_a_job_has_all_that_speeds_it_up() -> None:
    play(stage(8), [(0.0, [elastic("a")], {"a": 8})])


def test_the_shorter_one_of_two_gets_more_and_the_longer_one_all_at_its_end() -> None:
    there = stage(8)
    there.at(0.0, elastic("long", work=90_000.0, model="linear"), elastic("short", work=100.0, model="linear"))
    held = there.held()
    assert held["short"] > held["long"] >= 1
    there.at(40.0, "short")
    assert there.held() == {"long": 8}


def test_a_newcomer_starts_at_once_on_what_others_give_up() -> None:
    there = stage(4)
    there.at(0.0, elastic("a", model="linear", to=4, work=50_000.0))
    assert there.held() == {"a": 4}
    there.at(100.0, elastic("b", model="linear", to=4, work=90_000.0, at=100.0))
    assert there.held()["b"] >= 1


def test_between_reviews_free_gpus_are_given_at_once() -> None:
    there = stage(8)
    there.at(0.0, job("a", 4, duration_s=100.0))
    assert there.held() == {"a": 4}
    there.at(0.5, job("b", 4, at=0.5, duration_s=100.0))  # long before a review is due
    assert there.held() == {"a": 4, "b": 4}


def test_the_shorter_of_two_gangs_goes_first() -> None:
    play(
        stage(8),
        [
            (0.0, [job("a", 8, duration_s=100.0)], {"a": 8}),
            (0.5, [job("long", 8, at=0.5, duration_s=900.0), job("short", 8, at=0.5, duration_s=50.0)], {"a": 8}),
            (100.0, ["a"], {"short": 8}),
        ],
    )


def test_a_much_shorter_gang_preempts_at_the_next_review() -> None:
    there = stage(8)
    there.at(0.0, job("long", 8, duration_s=90_000.0))
    there.at(1.5, job("short", 8, at=1.5, duration_s=10.0))
    there.at(10.0)
    assert there.held() == {"short": 8}
    there.at(21.0, "short")
    assert there.held() == {"long": 8}


def test_who_may_not_be_preempted_stays() -> None:
    there = stage(8)
    there.at(0.0, job("keeps", 8, duration_s=90_000.0, preemptible=False))
    there.at(10.0, job("short", 8, at=10.0, duration_s=10.0))
    there.at(100.0)
    assert there.held() == {"keeps": 8}


def test_guarantees_come_first_and_limits_hold() -> None:
    tenants = TenantTree([Tenant("own", guaranteed_gpus=4), Tenant("small", limit_gpus=2)])
    there = stage(8, tenants=tenants)
    there.at(0.0, elastic("a", tenant="other", work=10.0), elastic("b", tenant="small", work=10.0))
    assert there.held()["b"] <= 2
    there.at(70.0, elastic("c", tenant="own", work=90_000.0, at=70.0))
    assert there.held()["c"] == 4


def test_a_heavier_tenant_gets_more() -> None:
    there = stage(8, tenants=TenantTree([Tenant("heavy", weight=8.0), Tenant("light")]))
    there.at(0.0, elastic("a", tenant="light"), elastic("b", tenant="heavy"))
    held = there.held()
    assert held["b"] > held["a"]


def test_costly_changes_are_not_made_for_little() -> None:
    """The same story twice: where changes cost as long as they last, the running job is left alone."""
    found = []
    for cost_s in (0.0, 120.0):
        config = ControllerConfig(instant=True, speeds=SPEEDS, costs=Costs(cost_s, cost_s, cost_s))
        controller = Controller(Tide(), Pack(), nodes(8), config=config)
        controller.tick(0.0, [Submitted(elastic("a", work=3000.0)), Submitted(elastic("b", work=3000.0))])
        before = controller.table["a"].gpus
        controller.tick(200.0, [Submitted(elastic("c", at=200.0, work=100.0))])
        found.append((before, controller.table["a"].resizes + controller.table["b"].resizes))
    (_, free), (_, dear) = found
    assert free > dear


def test_new_nodes_are_used() -> None:
    there = stage(4)
    there.at(0.0, elastic("a", model="linear"))
    there.at(REVIEW_S, NodeJoined(nodes(4, 4)[1]))
    assert there.held() == {"a": 8}


@pytest.mark.parametrize("declared", [True, False])
def test_a_large_gang_does_not_wait_longer_than_its_patience(declared: bool) -> None:
    """Small jobs overload the cluster for a day."""
    small = [job(f"s{i}", 1, at=100.0 * i, duration_s=900.0 if declared else None) for i in range(864)]
    large = job("large", 8, at=50.0, duration_s=3600.0 if declared else None)
    work = [*((spec, 900.0) for spec in small), (large, 3600.0)]
    controller = Controller(Tide(), Pack(), nodes(8), config=ControllerConfig(instant=True))
    Simulation(controller, [SimJob(spec, Fixed(seconds)) for spec, seconds in work]).run()
    started_s = controller.table["large"].first_start_s
    assert started_s is not None
    assert started_s <= PATIENCE_S + 3600.0


def test_why_a_job_waits_is_said() -> None:
    there = stage(4)
    there.at(0.0, job("a", 4, duration_s=10.0), job("b", 4, duration_s=10.0))
    waiting = next(name for name in "ab" if name not in there.held())
    assert there.controller.explain(waiting).startswith("position 1 of 1: needs 4 GPUs, 0 of 4 are free")
