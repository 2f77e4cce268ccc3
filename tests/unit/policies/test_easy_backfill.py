from __future__ import annotations

from raytide.policies.easy_backfill import EasyBackfill
from raytide.policies.fifo import Fifo
from support.scheduling import Stage, job, play


def lasting(name: str, gpus: int, duration_s: float | None, at: float = 0.0):
    return job(name, gpus, at=at, duration_s=duration_s)


def test_a_short_job_overtakes_and_delays_nobody():
    play(
        Stage(EasyBackfill(), 8),
        [
            (0, [lasting("runs", 6, 100), lasting("head", 8, 10), lasting("short", 2, 50)], {"runs": 6, "short": 2}),
            (50, ["short"], {"runs": 6}),
            (100, ["runs"], {"head": 8}),
        ],
    )


def test_a_long_job_overtakes_into_what_the_head_leaves_over():
    scene = Stage(EasyBackfill(), 8)
    scene.at(0, lasting("runs", 6, 100), lasting("head", 7, 10), lasting("one", 1, 1e6), lasting("another", 1, 1e6))
    assert scene.held() == {"runs": 6, "one": 1}, "the head will leave one GPU, not two"


def test_a_long_job_that_would_delay_the_head_waits():
    scene = Stage(EasyBackfill(), 8)
    scene.at(0, lasting("runs", 6, 100), lasting("head", 8, 10), lasting("long", 2, 101))
    assert scene.held() == {"runs": 6}


def test_the_shadow_moves_with_time():
    scene = Stage(EasyBackfill(), 8)
    scene.at(0, lasting("runs", 6, 100), lasting("head", 8, 10))
    scene.at(60, lasting("fits", 2, 40, at=60), lasting("late", 2, 41, at=60))
    assert scene.held() == {"runs": 6, "fits": 2}


def test_behind_a_job_that_never_ends_nothing_is_promised():
    scene = Stage(EasyBackfill(), 8)
    scene.at(0, lasting("runs", 6, None), lasting("head", 8, 10), lasting("long", 2, 1e6))
    assert scene.held() == {"runs": 6, "long": 2}


def test_an_overdue_job_is_taken_to_end_now():
    scene = Stage(EasyBackfill(), 8)
    scene.at(0, lasting("runs", 6, 100), lasting("head", 8, 10))
    scene.at(150, lasting("short", 2, 1, at=150))
    assert scene.held() == {"runs": 6}


def test_it_is_fifo_where_everything_fits():
    for policy in (EasyBackfill(), Fifo()):
        scene = Stage(policy, 8)
        scene.at(0, lasting("a", 3, 5), lasting("b", 3, 5), lasting("c", 2, 5))
        assert scene.held() == {"a": 3, "b": 3, "c": 2}


def test_waiting_jobs_are_told_why():
    scene = Stage(EasyBackfill(), 8)
    scene.at(0, lasting("runs", 6, 100), lasting("head", 8, 10))
    assert scene.controller.explain("head").startswith("position 1 of 1: needs 8 GPUs, 2 of 8 are free")
