"""Policies for jobs of fixed size, as scenario tables: when, what happens, who holds what afterwards."""

from __future__ import annotations

import pytest

from raytide.core import Tenant, TenantTree
from raytide.policies.fifo import Fifo
from raytide.policies.first_fit import FirstFit
from raytide.policies.las2d import Las2d
from raytide.policies.shortest import Srgf, Srtf
from support.scheduling import Stage, job, play


def lasting(name: str, gpus: int, duration_s: float, at: float = 0.0):
    return job(name, gpus, at=at, duration_s=duration_s)


STORIES = {
    "fifo starts in order and nobody overtakes": (
        Fifo,
        [
            (0, [job("a", 6), job("b", 4), job("c", 1)], {"a": 6}),
            (5, [job("d", 2, at=5)], {"a": 6}),
            (9, ["a"], {"b": 4, "c": 1, "d": 2}),
        ],
    ),
    "first fit lets small jobs overtake": (
        FirstFit,
        [
            (0, [job("a", 6), job("b", 4), job("c", 1)], {"a": 6, "c": 1}),
            (5, [job("d", 1, at=5)], {"a": 6, "c": 1, "d": 1}),
            (9, ["a"], {"c": 1, "d": 1, "b": 4}),
        ],
    ),
    "srtf preempts a longer job for a shorter one and goes back to it": (
        Srtf,
        [
            (0, [lasting("long", 8, 100)], {"long": 8}),
            (10, [lasting("short", 4, 20, at=10)], {"short": 4}),
            (30, ["short"], {"long": 8}),
        ],
    ),
    "srtf skips who does not fit and fills up with longer ones": (
        Srtf,
        [(0, [lasting("a", 5, 10), lasting("b", 5, 20), lasting("c", 3, 30)], {"a": 5, "c": 3})],
    ),
    "srtf puts a job without a declared duration last": (
        Srtf,
        [(0, [job("unknown", 8), lasting("known", 1, 1e6)], {"known": 1})],
    ),
    "srgf prefers little work on many GPUs to much work on few": (
        Srgf,
        [(0, [lasting("few", 1, 100), lasting("many", 8, 10)], {"many": 8})],
    ),
    "las2d demotes at the exact instant and then lets newcomers go first": (
        lambda: Las2d((80.0,)),
        [
            (0, [job("old", 8)], {"old": 8}),
            (5, [job("new", 8, at=5)], {"old": 8}),
            (10, [], {"new": 8}),
            (20, [], {"old": 8}),
        ],
    ),
    "las2d keeps running jobs of a queue before waiting ones": (
        lambda: Las2d((1e9,)),
        [
            (0, [job("a", 4), job("b", 8), job("c", 4)], {"a": 4, "c": 4}),
            (1, ["a"], {"c": 4}),
            (2, ["c"], {"b": 8}),
        ],
    ),
}


@pytest.mark.parametrize(("policy", "story"), STORIES.values(), ids=STORIES)
def test_story(policy, story):
    play(Stage(policy(), 8), story)


def test_las2d_asks_to_be_woken_at_the_next_demotion():
    stage = Stage(Las2d((80.0, 200.0)), 8)
    stage.at(0, job("a", 4))
    assert stage.wake_s == 20.0
    stage.at(20)
    assert stage.wake_s == 50.0


@pytest.mark.parametrize("policy", [Fifo, FirstFit, Srtf, Srgf, Las2d])
def test_a_tenant_at_its_limit_does_not_hold_up_others(policy):
    tenants = TenantTree([Tenant("small", limit_gpus=2)])
    stage = Stage(policy(), 8, tenants=tenants)
    jobs = [job(f"s{i}", 2, tenant="small", duration_s=1.0) for i in range(2)]
    stage.at(0, *jobs, job("other", 4, tenant="big", duration_s=9.0))
    assert stage.held() == {"s0": 2, "other": 4}
    stage.at(1, "s0")
    assert stage.held() == {"other": 4, "s1": 2}


@pytest.mark.parametrize("policy", [Srtf, Srgf, Las2d])
def test_a_job_that_may_not_be_preempted_keeps_its_slots(policy):
    stage = Stage(policy(), 8)
    stage.at(0, job("fixed", 8, preemptible=False, duration_s=1e6))
    stage.at(1e5, job("short", 1, at=1e5, duration_s=1.0))
    assert stage.held() == {"fixed": 8}


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Fifo, "position 2 of 2: needs 2 GPUs, 2 of 8 are free; nobody overtakes"),
        (FirstFit, "position 2 of 2: needs 3 GPUs, 2 of 8 are free; smaller jobs may overtake"),
        (Srtf, "1 jobs have less left to do: needs 8 GPUs, 2 of 8 are free"),
        (Las2d, "in queue 1 of 3, behind 2 jobs: needs 3 GPUs, 2 of 8 are free"),
    ],
)
def test_every_waiting_job_is_told_why(policy, words):
    stage = Stage(policy(), 8)
    last = {Fifo: 2, FirstFit: 3, Srtf: 8, Las2d: 3}[policy]
    middle = {Fifo: 4, FirstFit: 4, Srtf: 3, Las2d: 4}[policy]
    stage.at(
        0, job("runs", 6, duration_s=1.0), job("middle", middle, duration_s=9.0), job("last", last, duration_s=5.0)
    )
    assert stage.controller.explain("last") == words
