"""Scenarios of Pollux's policy: who holds what after a round."""

from __future__ import annotations

import pytest

from raytide.core import (
    BatchLimits,
    GradientNoise,
    JobSpec,
    LinearSpeed,
    Role,
    SpeedTable,
    StepSample,
    Tenant,
    TenantTree,
)
from raytide.core import Training as Report
from raytide.core.events import NodeDraining, NodeJoined, Trained
from raytide.core.model import Node
from raytide.policies.pollux import Pollux
from support.scheduling import Stage, job

SPEEDS = {
    "linear": LinearSpeed(),
    "flat": SpeedTable({1: 1.0, 2: 1.05, 4: 1.08}),
    "local": SpeedTable({1: 1.0, 2: 1.9, 4: 3.6}),
}


def stage(*gpus: int, tenants: TenantTree | None = None) -> Stage:
    return Stage(Pollux(), *gpus, speeds=SPEEDS, tenants=tenants or TenantTree())


def elastic(name: str, model: str = "linear", *, to: int = 8, **more) -> JobSpec:
    return job(name, 1, to=to, model=model, **more)


def places(there: Stage) -> dict[str, dict[str, int]]:
    return {name: dict(placement.gpus) for name, placement in there.controller.table.cluster.held.items()}


def test_alone_a_job_has_everything() -> None:
    there = stage(4, 4)
    there.at(0.0, elastic("a"))
    assert there.held() == {"a": 8}


def test_gpus_go_where_they_bring_progress() -> None:
    there = stage(4)
    there.at(0.0, elastic("steep"), elastic("flat", "flat", to=4))
    assert there.held() == {"steep": 3, "flat": 1}


def test_nobody_is_left_with_nothing() -> None:
    there = stage(4)
    there.at(0.0, elastic("a"))
    there.at(60.0, *(elastic(name, at=60.0) for name in "bcd"))
    assert there.held() == dict.fromkeys("abcd", 1)


def test_two_jobs_across_nodes_share_no_node() -> None:
    there = stage(4, 4, 4, 4)
    there.at(0.0, *(job(name, 6) for name in "abc"))
    across = [set(gpus) for gpus in places(there).values()]
    assert len(across) == 2
    assert not across[0] & across[1]


def test_a_newcomer_goes_where_there_is_room() -> None:
    there = stage(4, 4)
    there.at(0.0, elastic("a", to=4))
    node = next(iter(places(there)["a"]))
    there.at(60.0, elastic("b", to=4, at=60.0))
    assert places(there)["a"] == {node: 4}
    assert there.held() == {"a": 4, "b": 4}


def test_nothing_moves_while_nothing_changes() -> None:
    there = stage(4, 4)
    there.at(0.0, *(elastic(name, to=3) for name in "abc"))
    before = places(there)
    for now in (60.0, 120.0, 180.0):
        there.at(now)
    assert places(there) == before


def test_jobs_leave_a_node_that_drains_and_use_one_that_joins() -> None:
    there = stage(4, 4)
    there.at(0.0, elastic("a"))
    there.at(60.0, NodeDraining("n0"), NodeJoined(Node("n9", 8)))
    assert "n0" not in places(there)["a"]
    assert there.held() == {"a": 8}


def test_limits_of_tenants_hold() -> None:
    there = stage(4, 4, tenants=TenantTree([Tenant("t", limit_gpus=5), Tenant("u")]))
    there.at(0.0, elastic("a"), elastic("b"), elastic("c", tenant="u", to=2))
    held = there.held()
    assert held["a"] + held["b"] == 5
    assert held["c"] == 2


def test_who_may_not_be_preempted_keeps_what_it_has() -> None:
    there = stage(4)
    there.at(0.0, elastic("fixed", preemptible=False))
    there.at(60.0, elastic("b", at=60.0))
    assert there.held() == {"fixed": 4}
    assert "position 1 of 1" in there.controller.explain("b")


def test_replicas_of_two_gpus_grow_by_two() -> None:
    there = stage(5)
    there.at(0.0, JobSpec("a", "t", 0.0, (Role("replica", 1, 4, gpus=2),), 1))
    assert there.held() == {"a": 4}


def test_a_job_of_free_batch_at_most_doubles() -> None:
    limits = BatchLimits(smallest_batch=32, largest_batch=4096, min_local=16, max_local=256)
    there = stage(4, 4)
    there.at(0.0, elastic("a", batch=limits))
    held = [there.held()["a"]]
    for round_ in (1, 2, 3):
        gpus, nodes = held[-1], len(places(there)["a"])
        noise = GradientNoise(1.0, 1000.0)
        report = Report((StepSample(gpus, nodes, 32, 0.1, 0.001 * nodes),), noise, 10.0 * round_, 1.0)
        there.at(60.0 * round_, Trained("a", report))
        held.append(there.held()["a"])
    assert held == [1, 2, 4, 8]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_decides_alike(seed: int) -> None:
    found = []
    for _ in range(2):
        there = Stage(Pollux(seed), 4, 4, 4, speeds=SPEEDS)
        there.at(0.0, *(elastic(name, model) for name, model in zip("abcde", [*SPEEDS, *SPEEDS], strict=False)))
        found.append(places(there))
    assert found[0] == found[1]
