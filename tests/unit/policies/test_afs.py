from __future__ import annotations

import pytest

from raytide.core import LinearSpeed, SpeedTable, Tenant, TenantTree
from raytide.policies.afs import Afs
from support.scheduling import Stage, job, play

SPEEDS = {
    "linear": LinearSpeed(),
    "flat": SpeedTable({1: 1.0, 2: 1.1, 4: 1.15}),
    "falling": SpeedTable({1: 1.0, 2: 1.5, 4: 1.1}),
}


def stage(gpus: int = 8, **options) -> Stage:
    return Stage(Afs(), gpus, speeds=SPEEDS, **options)


def elastic(name: str, work: float | None, model: str = "linear", *, least: int = 1, most: int = 8, **more):
    return job(name, least, to=most, model=model, work=work, **more)


@pytest.mark.parametrize(
    ("gpus", "jobs", "held"),
    [
        # Equally efficient jobs take turns, the shorter one is ahead.
        (8, [elastic("long", 900.0), elastic("short", 100.0)], {"long": 3, "short": 5}),
        # A short job that gains little leaves its turn to the long one.
        (8, [elastic("flat", 100.0, "flat"), elastic("long", 900.0)], {"flat": 1, "long": 7}),
        # A longer job that gains little yields as well.
        (8, [elastic("flat", 900.0, "flat"), elastic("short", 100.0)], {"flat": 1, "short": 7}),
        # Too few GPUs: the shortest come first.
        (2, [elastic("c", 30.0), elastic("a", 10.0), elastic("b", 20.0)], {"a": 2}),
        # A gang enters whole, when the others have as much for each of its GPUs.
        (8, [elastic("gang", 900.0, least=3, most=3), elastic("short", 100.0)], {"gang": 3, "short": 5}),
        # One that does not fit when it is its turn is passed by.
        (8, [elastic("small", 10.0, most=6), elastic("gang", 900.0, least=4, most=4)], {"small": 6}),
        (6, [elastic("longer", 10.0, least=4, most=6), elastic("gang", 5.0, least=4, most=4)], {"gang": 4}),
        # Nobody takes a GPU that makes it slower.
        (8, [elastic("falling", 100.0, "falling")], {"falling": 2}),
    ],
)
def test_who_gets_what(gpus, jobs, held):
    scene = stage(gpus)
    scene.at(0, *jobs)
    assert scene.held() == held


def test_jobs_are_weighed_by_what_is_left_of_them():
    play(
        stage(3),
        [
            (0, [elastic("a", 300.0)], {"a": 3}),
            (90, [elastic("b", 100.0, at=90)], {"a": 2, "b": 1}),  # a has 30 left
        ],
    )


def test_without_declared_work_who_has_had_little_goes_first():
    play(
        stage(1),
        [
            (0, [elastic("old", None)], {"old": 1}),
            (10, [elastic("new", None, at=10)], {"new": 1}),
        ],
    )


def test_a_job_that_may_not_be_preempted_keeps_its_least():
    scene = stage(4)
    scene.at(0, elastic("kept", 1e6, least=2, most=4, preemptible=False))
    scene.at(1, *(elastic(f"short{i}", 1.0, most=1, at=1) for i in range(4)))
    assert scene.held() == {"kept": 2, "short0": 1, "short1": 1}
    assert scene.controller.explain("short2") == "0 jobs have less left to do: needs 1 GPUs, 0 of 4 are free"


def test_a_tenant_at_its_limit_gets_no_more():
    scene = stage(8, tenants=TenantTree([Tenant("t", limit_gpus=3)]))
    scene.at(0, elastic("a", 10.0), elastic("other", 10.0, tenant="u"))
    assert scene.held() == {"a": 3, "other": 5}
