from __future__ import annotations

import pytest

from raytide.core import (
    Controller,
    ControllerConfig,
    JobSpec,
    LinearSpeed,
    Role,
    ServerSpeed,
    SpeedTable,
    Tenant,
    TenantTree,
)
from raytide.core.events import NodeDraining, Resized, Started, Submitted
from raytide.policies.eps import Eps
from raytide.policies.placement import Count
from support.scheduling import Stage, job, nodes, play

SPEEDS = {
    "linear": LinearSpeed(),
    "flat": SpeedTable({1: 1.0, 2: 1.1, 4: 1.15}),
    "busy servers": ServerSpeed(compute_s=8.0, transfer_s=2.0),
    "busy workers": ServerSpeed(compute_s=8.0, transfer_s=0.01),
}


def stage(gpus: int = 8, **options) -> Stage:
    return Stage(Eps(), gpus, speeds=SPEEDS, **options)


def elastic(name: str, least: int = 1, most: int = 8, *, at: float = 0.0, model: str = "linear", **more) -> JobSpec:
    return job(name, least, to=most, model=model, at=at, **more)


def served(name: str, workers: tuple[int, int] = (1, 8), servers: tuple[int, int] = (1, 8), **more) -> JobSpec:
    """A job with workers and servers, from least to most of each, one GPU each."""
    roles = (Role("worker", *workers), Role("server", *servers))
    at = more.pop("at", 0.0)
    return JobSpec(name, "t", at, roles, workers[0], **more)


def shape(scene: Stage, name: str) -> tuple[int, int]:
    """Workers and servers."""
    found = scene.controller.table[name].shape
    return found["worker"], found["server"]


def test_newcomers_start_at_once_and_what_they_leave_is_given_back():
    play(
        stage(),
        [
            (0, [elastic("a")], {"a": 8}),
            (5, [elastic("b", 3, 3, at=5)], {"a": 5, "b": 3}),
            (6, [elastic("c", at=6)], {"a": 4, "b": 3, "c": 1}),
            (7, ["b"], {"a": 4, "c": 4}),
            (8, ["a"], {"c": 8}),
        ],
    )


def test_who_loses_least_makes_room():
    scene = stage(9)
    scene.at(0, elastic("flat", model="flat", most=4), elastic("good", most=5))
    assert scene.held() == {"flat": 4, "good": 5}
    scene.at(1, elastic("new", 2, 2, at=1))
    assert scene.held() == {"flat": 2, "good": 5, "new": 2}
    assert scene.controller.table["flat"].reason == "makes room for new"


def test_nothing_is_taken_if_it_would_not_be_enough_and_nobody_overtakes():
    scene = stage()
    scene.at(0, elastic("a", 4))
    scene.at(1, elastic("large", 6, 6, at=1), elastic("small", at=2))
    assert scene.held() == {"a": 8}
    assert scene.controller.explain("large").startswith("position 1 of 2: needs 6 GPUs, 0 of 8 are free")
    scene.at(3, "a")
    assert scene.held() == {"large": 6, "small": 2}


def test_a_newcomer_at_its_tenants_limit_holds_up_nobody():
    scene = stage(tenants=TenantTree([Tenant("t", limit_gpus=2)]))
    scene.at(0, elastic("mine", 2), elastic("more", 1), elastic("other", tenant="u"))
    assert scene.held() == {"mine": 2, "other": 6}


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("busy servers", (5, 4)),  # one server more per worker up to four for five
        ("busy workers", (7, 2)),  # no more servers than five workers need
        ("", (5, 4)),
    ],
)
def test_workers_and_servers_grow_where_they_gain_most(model, found):
    scene = stage(9)
    scene.at(0, served("a", model=model))
    assert shape(scene, "a") == found


def test_workers_and_servers_are_taken_where_they_are_missed_least():
    scene = stage(9)
    scene.at(0, served("a", model="busy servers"))
    scene.at(1, served("b", (1, 1), (1, 1), at=1, model="busy workers"))
    workers, servers = shape(scene, "a")
    assert shape(scene, "b") == (1, 1)
    assert workers + servers == 7
    assert servers >= 3, "servers are what it lacks"
    scene.at(2, elastic("c", 5, 5, at=2))
    assert shape(scene, "a") == (1, 1)
    scene.at(3, "c")
    assert sum(shape(scene, "a")) == 7


def test_servers_without_gpus_are_left_alone():
    scene = stage(4)
    roles = (Role("worker", 1, 4), Role("server", 1, 2, gpus=0))
    scene.at(0, JobSpec("a", "t", 0.0, roles, model="busy workers"))
    workers, servers = shape(scene, "a")
    assert (workers, scene.held()["a"]) == (4, 4)
    scene.at(1, elastic("b", 3, 3, at=1))
    assert shape(scene, "a") == (1, servers)


def test_slots_that_are_being_given_back_are_not_taken_twice():
    controller = Controller(Eps(), Count(), nodes(8), config=ControllerConfig(speeds=SPEEDS))
    controller.tick(0, [Submitted(elastic("a", most=4)), Submitted(elastic("b", most=4))])
    controller.tick(1, [Started("a"), Started("b")])
    controller.tick(2, [Submitted(elastic("new", 2, 2, at=2))])
    controller.tick(3, [Submitted(elastic("full", 20, 20, at=3))])  # refused; only a reason to decide again
    shrunk = {name: controller.table[name].gpus for name in ("a", "b")}
    assert sum(shrunk.values()) == 6
    controller.tick(4, [Resized(name) for name, gpus in shrunk.items() if gpus < 4])
    assert controller.table["new"].gpus == 2


def test_free_slots_of_a_draining_node_do_not_count():
    scene = Stage(Eps(), 4, 4, speeds=SPEEDS)
    scene.at(0, elastic("a", most=4))
    scene.at(1, NodeDraining("n1"))
    scene.at(2, elastic("b", 2, 2, at=2))
    assert scene.held() == {"a": 2, "b": 2}
