"""Policies for jobs whose size changes, as scenario tables."""

from __future__ import annotations

import pytest

from raytide.core import LinearSpeed, SpeedTable
from raytide.core.events import Progressed
from raytide.policies.elastic_tiresias import ElasticTiresias
from raytide.policies.optimus import Optimus
from raytide.policies.tiresias import Tiresias
from support.scheduling import Stage, job, play

SPEEDS = {
    "linear": LinearSpeed(),
    "good": SpeedTable({1: 1.0, 2: 1.9, 4: 3.6, 8: 6.8}),
    "flat": SpeedTable({1: 1.0, 2: 1.2, 4: 1.3}),
    "falling": SpeedTable({1: 1.0, 2: 1.5, 4: 1.1}),
}


def stage(policy, gpus: int = 8) -> Stage:
    return Stage(policy, gpus, speeds=SPEEDS)


def elastic(name: str, least: int = 1, most: int = 8, *, requested: int = 1, model: str = "good", at: float = 0.0):
    return job(name, least, to=most, requested=requested, model=model, at=at)


def test_tiresias_demotes_and_serves_who_started_first():
    play(
        stage(Tiresias(demotion_gpu_s=80.0)),
        [
            (0, [job("old", 8)], {"old": 8}),
            (5, [job("new", 8, at=5), job("newer", 8, at=5)], {"old": 8}),
            (10, [], {"new": 8}),
            (20, [], {"newer": 8}),
            (30, [], {"old": 8}),
        ],
    )


def test_free_gpus_go_where_they_gain_most():
    scene = stage(ElasticTiresias())
    scene.at(0, elastic("good"), elastic("flat", model="flat"))
    assert scene.held() == {"good": 7, "flat": 1}


def test_nobody_is_given_a_gpu_that_gains_nothing():
    scene = stage(ElasticTiresias())
    scene.at(0, elastic("falling", model="falling"))
    assert scene.held() == {"falling": 2}


def test_ties_go_to_who_was_there_first():
    scene = stage(ElasticTiresias(), gpus=3)
    scene.at(0, elastic("a", model="linear"), elastic("b", model="linear", at=0.0))
    assert scene.held() == {"a": 2, "b": 1}


def test_a_job_shrinks_to_what_it_asked_for_when_another_one_comes():
    play(
        stage(ElasticTiresias()),
        [
            (0, [elastic("a", requested=4)], {"a": 8}),
            (9, [elastic("b", requested=4, at=9)], {"a": 4, "b": 4}),
            (12, ["b"], {"a": 8}),
        ],
    )


def test_many_waiting_jobs_make_those_of_the_second_queue_shrink():
    scene = stage(ElasticTiresias(demotion_gpu_s=40.0, waiting_limit=2))
    scene.at(0, elastic("old", requested=8))
    scene.at(5, *(elastic(f"new{i}", 3, 8, requested=8, at=5) for i in range(2)))
    assert scene.held() == {"new0": 8}, "two wait, which is not more than two"
    scene.at(6, *(elastic(f"new{i}", 3, 8, requested=8, at=6) for i in range(2, 4)))
    assert scene.held()["new0"] == 8, "the first queue does not shrink"


def test_a_job_of_the_second_queue_keeps_its_minimum_only():
    scene = stage(ElasticTiresias(demotion_gpu_s=40.0, waiting_limit=0))
    scene.at(0, elastic("old", 2, 8, requested=8))
    scene.at(5)
    scene.at(6, elastic("a", 6, 6, requested=6, at=6), elastic("b", 6, 6, requested=6, at=6))
    assert scene.held() == {"a": 6, "old": 2}


@pytest.mark.parametrize("policy", [Tiresias, ElasticTiresias])
def test_every_waiting_job_is_told_why(policy):
    scene = stage(policy())
    scene.at(0, job("a", 8), job("b", 2, at=0.0))
    assert scene.controller.explain("b") == "in queue 1 of 2: needs 2 GPUs, 0 of 8 are free"


def with_work(name: str, work: float | None, model: str = "linear", at: float = 0.0, most: int = 8):
    return job(name, 1, to=most, model=model, at=at, work=work)


def test_who_may_not_be_preempted_keeps_its_minimum_in_the_second_queue():
    """A job of the second queue shrinks for those of the first, but is not suspended."""
    play(
        stage(ElasticTiresias(demotion_gpu_s=40.0)),
        [
            (0, [job("kept", 2, to=8, requested=8, preemptible=False)], {"kept": 8}),
            (6, [job("gang", 8, at=6)], {"kept": 8}),
            (7, [job("small", 6, at=7)], {"kept": 2, "small": 6}),
            (8, ["kept", "small"], {"gang": 8}),
        ],
    )


def test_optimus_leaves_who_may_not_be_preempted_its_least():
    """An earlier gang that could not start before does not push it out; it waits for its end."""
    play(
        stage(Optimus()),
        [
            (
                0,
                [job("first", 4), job("gang", 8), job("kept", 2, to=4, preemptible=False, work=1e3)],
                {"first": 4, "kept": 4},
            ),
            (1, ["first"], {"kept": 4}),
            (2, [job("late", 6, at=2)], {"kept": 2, "late": 6}),
            (3, ["kept"], {"gang": 8}),
        ],
    )


def test_optimus_gives_gpus_where_they_save_most_time():
    scene = stage(Optimus())
    scene.at(0, with_work("long", 900.0), with_work("short", 100.0))
    # 900/n and 100/m with n + m = 8: the marginal savings meet at 6 and 2.
    assert scene.held() == {"long": 6, "short": 2}


def test_optimus_serves_everybody_before_anybody_grows():
    scene = stage(Optimus(), gpus=3)
    scene.at(0, with_work("a", 1e6), with_work("b", 1.0), with_work("c", 1.0), with_work("d", 1e9))
    assert scene.held() == {"a": 1, "b": 1, "c": 1}
    assert scene.controller.explain("d").startswith("position 1 of 1: needs 1 GPUs, 0 of 3 are free")


def test_optimus_stops_where_a_curve_falls_and_knows_nothing_of_undeclared_work():
    scene = stage(Optimus())
    scene.at(0, with_work("falling", 1e6, "falling"), with_work("unknown", None))
    assert scene.held() == {"falling": 2, "unknown": 1}


def test_what_is_done_counts_no_more():
    scene = stage(Optimus())
    scene.at(0, with_work("a", 800.0))
    assert scene.held() == {"a": 8}
    scene.at(90, with_work("b", 800.0, at=90))  # 80 of the first one's work are left
    assert scene.held() == {"a": 2, "b": 6}
    scene.at(90, Progressed("a", 0.0), with_work("c", 1.0, at=90, most=1))
    assert scene.held()["a"] > 2, "it reported that nothing was done after all"
