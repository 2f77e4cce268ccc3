"""Deadlines, as scenario tables."""

from __future__ import annotations

import pytest

from raytide.core import Costs, LinearSpeed, Node, SpeedTable, Tenant, TenantTree
from raytide.core.events import NodeJoined, NodeLost, Progressed
from raytide.policies.deadline import Deadline
from support.scheduling import Stage, job, play

SPEEDS = {
    "linear": LinearSpeed(),
    "good": SpeedTable({1: 1.0, 2: 1.8, 4: 3.2, 8: 5.0}),
    "falling": SpeedTable({1: 1.0, 2: 1.5, 4: 1.1}),
}


def stage(*gpus: int, change_s: float = 0.0) -> Stage:
    return Stage(Deadline(), *gpus, speeds=SPEEDS, costs=Costs(change_s, change_s, change_s))


def due(name: str, work: float, deadline_s: float, *, most: int = 8, model: str = "linear", at: float = 0.0, **more):
    return job(name, more.pop("least", 1), to=most, model=model, at=at, work=work, deadline_s=deadline_s, **more)


def test_an_urgent_job_takes_what_it_needs_from_one_that_can_do_with_less():
    play(
        stage(8),
        [
            (0, [due("calm", 800.0, 1000.0, model="good")], {"calm": 8}),
            (10, [due("urgent", 32.0, 26.0, model="good", at=10)], {"calm": 4, "urgent": 4}),
            (20, ["urgent"], {"calm": 8}),
        ],
    )


def test_who_cannot_be_in_time_even_alone_is_refused_with_the_reason():
    scene = stage(8)
    scene.at(0, due("hopeless", 100.0, 10.0))
    assert scene.state("hopeless") == "refused"
    assert scene.controller.table["hopeless"].reason == (
        "cannot be done by its deadline at 10 s: with 8 GPUs from now on, by 12 s"
    )


def test_the_cost_of_the_start_counts():
    scene = stage(8, change_s=3.0)
    scene.at(0, due("tight", 80.0, 12.0), due("fits", 80.0, 13.1, at=0.0))
    assert (scene.state("tight"), scene.state("fits")) == ("refused", "running")


def test_who_finds_no_room_waits_and_is_refused_when_it_is_too_late():
    scene = stage(8)
    scene.at(0, due("first", 80.0, 10.1))
    scene.at(1, due("second", 40.0, 12.0, at=1))
    assert scene.held() == {"first": 8}
    assert scene.controller.explain("second").startswith("not admitted yet: no room before its deadline at 12 s")
    assert scene.wake_s == pytest.approx(7.0, abs=0.01)
    scene.at(scene.wake_s)
    assert scene.state("second") == "refused"
    assert scene.controller.table["second"].reason.endswith("for 6 s jobs that were admitted before left no room")


def test_who_found_no_room_is_admitted_when_another_one_ends_early():
    play(
        stage(8),
        [
            (0, [due("first", 80.0, 10.1)], {"first": 8}),
            (1, [due("second", 40.0, 12.0, at=1)], {"first": 8}),
            (5, ["first"], {"second": 8}),
        ],
    )


def test_of_two_that_do_not_both_fit_the_smaller_one_is_admitted():
    scene = stage(8)
    scene.at(0, due("large", 80.0, 10.5), due("small", 16.0, 10.5, at=0.0))
    assert scene.state("small") == "running"
    assert "large" not in scene.held()


def test_a_job_that_can_wait_starts_later_and_the_policy_is_woken():
    scene = stage(4)
    scene.at(0, due("now", 40.0, 10.5, most=4), due("later", 40.0, 25.0, most=4, at=0.0))
    assert scene.held() == {"now": 4}
    assert scene.controller.explain("later").startswith("admitted: starts by 10 s, done by 20 s")
    assert scene.wake_s == pytest.approx(10.0)


def test_sizes_that_are_no_faster_are_not_used():
    scene = stage(8)
    scene.at(0, due("falling", 100.0, 1000.0, model="falling"))
    assert scene.held() == {"falling": 2}


def test_what_is_left_goes_where_speed_gains_most():
    scene = stage(9)
    scene.at(0, due("linear", 1000.0, 1200.0), due("good", 1000.0, 1200.0, model="good", at=0.0))
    assert scene.held() == {"linear": 8, "good": 1}


def test_jobs_without_deadline_run_on_the_rest():
    play(
        stage(8),
        [
            (0, [job("free", 2, to=4, model="linear")], {"free": 4}),
            (5, [due("due", 64.0, 13.5, at=5)], {"due": 8}),
            (13, ["due"], {"free": 4}),
        ],
    )


def test_who_may_not_be_preempted_keeps_what_it_has():
    scene = stage(8)
    scene.at(0, due("fixed", 100.0, 60.0, most=2, preemptible=False))
    scene.at(1, due("new", 80.0, 11.5, at=1), due("small", 40.0, 11.5, at=1))
    assert scene.held()["fixed"] == 2
    assert scene.held()["small"] >= 4
    assert scene.controller.table["new"].waiting


def test_one_late_job_does_not_shut_out_newcomers():
    scene = stage(4, 4)
    scene.at(0, due("big", 80.0, 10.5))
    scene.at(1, NodeLost("n1"))
    assert scene.held() == {"big": 4}, "it goes on, although it will be late"
    scene.at(2, due("new", 8.0, 6.0, most=4, at=2))
    assert scene.held()["new"] == 4
    scene.at(4, "new")
    assert scene.held() == {"big": 4}
    scene.at(5, NodeJoined(Node("n2", 4)))
    assert scene.held() == {"big": 8}


def test_reports_of_progress_count_more_than_what_was_assumed():
    scene = stage(8)
    scene.at(0, due("slow", 80.0, 20.5, most=4), due("other", 40.0, 20.0, most=4, at=0.0))
    assert scene.held() == {"slow": 4, "other": 4}
    scene.at(10, Progressed("slow", 0.0), "other", due("new", 1.0, 30.0, most=4, at=10))
    assert "slow" in scene.held(), "80 are left and 40 can be done in time: late, on the rest"
    assert scene.controller.policy.why_waiting(scene.controller.view(), scene.controller.table["slow"]).startswith(
        "runs on what jobs with deadlines leave"
    )


def test_a_deadline_counts_for_nothing_where_no_work_is_declared():
    scene = stage(8)
    scene.at(0, job("unknown", 2, deadline_s=1.0))
    assert scene.held() == {"unknown": 2}
    scene.at(5, job("declared", 2, deadline_s=6.0, duration_s=9.0, at=5))
    assert scene.state("declared") == "refused"


def test_a_job_of_a_full_tenant_gets_less_or_waits():
    scene = Stage(Deadline(), 8, speeds=SPEEDS, tenants=TenantTree([Tenant("t", limit_gpus=5)]))
    scene.at(0, due("first", 100.0, 200.0), due("second", 100.0, 200.0, at=0.0))
    assert sum(scene.held().values()) == 5
    assert scene.held()["first"] == 4, "larger sizes than its tenant may hold are none"
