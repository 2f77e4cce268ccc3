from __future__ import annotations

from raytide.core import LinearSpeed, SpeedTable, Tenant, TenantTree
from raytide.policies.ftf import Ftf
from support.scheduling import Stage, job, play

SPEEDS = {"linear": LinearSpeed(), "flat": SpeedTable({1: 1.0, 2: 1.1, 4: 1.15})}


def stage(gpus: int = 8, *, choose_first: float = 0.2, **options) -> Stage:
    return Stage(Ftf(lease_s=100.0, choose_first=choose_first), gpus, speeds=SPEEDS, **options)


def elastic(name: str, work: float | None, model: str = "linear", *, least: int = 1, most: int = 8, **more):
    return job(name, least, to=most, model=model, work=work, **more)


def test_rigid_jobs_take_turns_by_their_delay():
    scene = stage()
    play(
        scene,
        [
            (0, [elastic("a", 1600.0, least=8), elastic("b", 1600.0, least=8)], {"a": 8}),
            (50, [], {"a": 8}),
            (100, [], {"b": 8}),
            (200, [], {"a": 8}),
        ],
    )
    assert scene.wake_s == 300.0
    said = "delayed 0.8 times its fair time, 0 jobs more than that: needs 8 GPUs, 0 of 8 are free"
    assert scene.controller.explain("b") == said


def test_within_a_lease_newcomers_get_what_is_free():
    play(
        stage(),
        [
            (0, [elastic("a", 4000.0, most=6)], {"a": 6}),
            (30, [elastic("b", 100.0, at=30)], {"a": 6, "b": 2}),
            (60, [elastic("c", 100.0, at=60)], {"a": 6, "b": 2}),
            (80, ["b"], {"a": 6, "c": 2}),
        ],
    )


def test_at_the_end_of_a_lease_the_most_delayed_one_chooses_first():
    play(
        stage(),
        [
            (0, [elastic("long", 8000.0)], {"long": 8}),
            (10, [elastic("short", 80.0, at=10)], {"long": 8}),
            (100, [], {"short": 8}),  # ten times its time alone
            (110, ["short"], {"long": 8}),
        ],
    )


def test_among_those_who_choose_replicas_go_where_they_help_most():
    scene = stage(choose_first=1.0)
    scene.at(0, elastic("flat", 800.0, "flat"), elastic("good", 800.0))
    assert scene.held() == {"good": 7, "flat": 1}


def test_a_job_of_which_nothing_is_known_comes_before_those_that_have_had_something():
    play(
        stage(4),
        [
            (0, [elastic("known", 400.0, least=4)], {"known": 4}),
            (10, [elastic("unknown", None, least=4, at=10)], {"known": 4}),
            (100, [], {"unknown": 4}),
        ],
    )


def test_a_declared_duration_will_do():
    scene = stage()
    scene.at(0, job("long", 8, duration_s=1000.0), job("short", 8, duration_s=10.0))
    scene.at(100)
    assert scene.held() == {"short": 8}


def test_a_job_that_may_not_be_preempted_keeps_its_least_and_limits_hold():
    scene = stage(tenants=TenantTree([Tenant("t", limit_gpus=6)]))
    scene.at(0, elastic("kept", 8000.0, least=2, preemptible=False))
    assert scene.held() == {"kept": 6}
    scene.at(10, elastic("mine", 8.0, at=10), elastic("other", 8000.0, at=10, tenant="u"))
    assert scene.held() == {"kept": 6, "other": 2}
    scene.at(100)
    assert scene.held() == {"kept": 2, "mine": 4, "other": 2}
