"""The controller with scripted policies: events in, commands out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from raytide.core import (
    NOTHING,
    NOWHERE,
    Controller,
    ControllerConfig,
    Decision,
    EventDriven,
    JobState,
    Node,
    Placement,
    PolicyError,
    Rounds,
    Tenant,
    TenantTree,
    replicas,
)
from raytide.core import events as e
from raytide.core.commands import Refuse, Scale, Start, Stop, Suspend, Wake
from raytide.core.table import UnknownJob
from raytide.errors import RaytideError
from raytide.policies.fifo import Fifo
from raytide.policies.placement import Pack
from support.scheduling import Stage, job, nodes


class Scripted:
    """Returns what the test says, and keeps the views it was given."""

    name = "scripted"

    def __init__(self, clock=None) -> None:
        self.clock = clock or EventDriven()
        self.next = Decision()
        self.asked_s: list[float] = []

    def want(self, reasons: Mapping[str, str] | None = None, **sizes: int) -> None:
        self.next = Decision({name: replicas(size) for name, size in sizes.items()}, reasons or {})

    def decide(self, view):
        self.asked_s.append(view.now)
        decision, self.next = self.next, Decision()
        return decision

    def why_waiting(self, view, job):
        return "scripted"


@pytest.fixture
def policy():
    return Scripted()


@pytest.fixture
def live(policy):
    """A controller whose commands take time, on one node of 8 GPUs."""
    controller = Controller(policy, Pack(), nodes(8))
    yield controller
    controller.validate()


def on(count: int) -> Placement:
    return Placement((("n0", count),))


def run_with(live: Controller, policy: Scripted, name: str, size: int, *, to: int = 8) -> None:
    policy.want(**{name: size})
    live.tick(0.0, [e.Submitted(job(name, 1, to=to))])
    live.tick(0.0, [e.Started(name)])


def test_a_start_holds_its_slots_until_it_is_answered(live, policy):
    policy.want(a=2)
    assert live.tick(0.0, [e.Submitted(job("a", 1, to=4))]) == [Start("a", replicas(2), on(2), resume=False)]
    assert live.table["a"].state is JobState.STARTING
    assert live.table.cluster.free == 6
    live.tick(1.0, [e.Started("a")])
    assert live.table["a"].state is JobState.RUNNING


def test_a_resize_holds_old_and_new_slots_until_it_is_done(live, policy):
    run_with(live, policy, "a", 6)
    policy.want(a=2)
    assert live.tick(5.0, [e.Timer(), e.TenantsChanged(TenantTree())]) == [Scale("a", replicas(2), on(2))]
    assert live.table.cluster.free == 2
    live.tick(6.0, [e.Resized("a")])
    assert live.table.cluster.free == 6


def test_a_failed_resize_goes_back_to_what_the_job_had(live, policy):
    run_with(live, policy, "a", 2)
    policy.want(a=5)
    live.tick(5.0, [e.TenantsChanged(TenantTree())])
    assert live.table.cluster.free == 3
    live.tick(6.0, [e.ResizeFailed("a", "a newcomer died")])
    assert (live.table["a"].gpus, live.table.cluster.free) == (2, 6)
    assert "a newcomer died" in live.table["a"].story()[-1]


def test_a_changing_job_is_left_alone_until_it_has_changed(live, policy):
    run_with(live, policy, "a", 2)
    policy.want(a=4)
    live.tick(5.0, [e.TenantsChanged(TenantTree())])
    policy.want(a=6)
    assert live.tick(5.5, [e.TenantsChanged(TenantTree())]) == []
    policy.want(a=6)
    assert live.tick(6.0, [e.Resized("a")]) == [Scale("a", replicas(6), on(6))]


def test_slots_of_a_suspended_job_are_free_when_it_has_saved(live, policy):
    run_with(live, policy, "a", 8)
    policy.want({"a": "for b"}, a=0, b=8)
    assert live.tick(5.0, [e.Submitted(job("b", 1, to=8, at=5.0))]) == [Suspend("a", "for b")]
    assert live.table["b"].reason == "no room for 8 replicas yet: 0 GPUs are free"
    policy.want(b=8)
    assert live.tick(7.0, [e.Suspended("a")]) == [Start("b", replicas(8), on(8), resume=False)]
    live.tick(8.0, [e.Started("b")])
    policy.want(a=1)
    assert live.tick(9.0, [e.Finished("b")]) == [Start("a", replicas(1), on(1), resume=True)]


def test_a_cancelled_job_is_stopped_or_simply_leaves_the_queue(live, policy):
    run_with(live, policy, "a", 8)
    live.tick(1.0, [e.Submitted(job("b", at=1.0))])
    assert live.tick(2.0, [e.CancelRequested("a"), e.CancelRequested("b")]) == [Stop("a", "cancelled by its owner")]
    assert live.table["b"].state is JobState.CANCELLED
    assert live.table.cluster.free == 0
    live.tick(3.0, [e.Stopped("a")])
    assert live.table["a"].state is JobState.CANCELLED
    assert live.table.cluster.free == 8


def test_a_failed_job_ends_and_a_crashed_one_queues_again(live, policy):
    run_with(live, policy, "a", 2)
    run_with(live, policy, "b", 2)
    live.tick(5.0, [e.Finished("a", error="ValueError"), e.Crashed("b", "node lost")])
    assert live.table["a"].state is JobState.FAILED
    assert live.table["a"].reason == "ValueError"
    assert live.table["b"].state is JobState.PENDING
    assert live.table.cluster.free == 8


def test_late_news_of_an_ended_job_changes_nothing(live, policy):
    run_with(live, policy, "a", 2)
    live.tick(5.0, [e.Finished("a")])
    late = [e.Started("a"), e.Resized("a"), e.ResizeFailed("a", "x"), e.Suspended("a"), e.Finished("a", error="x")]
    live.tick(6.0, [*late, e.Stopped("a"), e.Crashed("a", "x"), e.CancelRequested("a"), e.Measured("a", NOTHING, 1.0)])
    assert live.table["a"].state is JobState.SUCCEEDED


def test_a_lost_node_leaves_a_job_what_it_has_elsewhere(policy):
    controller = Controller(policy, Pack(), nodes(4, 4))
    policy.want(wide=6)
    controller.tick(0.0, [e.Submitted(job("wide", 2, to=8)), e.Submitted(job("small", 1))])
    policy.want(small=1)
    controller.tick(0.0, [e.Started("wide")])
    controller.tick(0.0, [e.Started("small")])
    left = controller.tick(9.0, [e.NodeLost("n0")])
    assert left == [Scale("wide", replicas(2), Placement((("n1", 2),)))]
    controller.validate()
    gone = controller.tick(10.0, [e.NodeLost("n1")])
    assert [type(command) for command in gone] == [Suspend, Suspend]
    assert {controller.table[name].state for name in ("wide", "small")} == {JobState.PENDING}
    controller.validate()


def test_jobs_move_away_from_a_draining_node_where_there_is_room(policy):
    controller = Controller(policy, Pack(), nodes(4), config=ControllerConfig(instant=True))
    policy.want(a=3)
    controller.tick(0.0, [e.Submitted(job("a", 3))])
    assert controller.tick(1.0, [e.NodeDraining("n0")]) == []
    controller.tick(2.0, [e.NodeJoined(Node("n1", 4))])
    assert controller.table.cluster.placement("a") == on(3)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (job("big", 9), "it needs at least 9 GPUs and the cluster has 8"),
        (job("poor", 3, tenant="poor"), "it needs at least 3 GPUs and tenant poor is limited to 2"),
    ],
)
def test_jobs_that_can_never_run_are_refused_at_once(spec, words):
    stage = Stage(Fifo(), 4, 4, tenants=TenantTree([Tenant("poor", limit_gpus=2)]))
    assert stage.at(0.0, spec) == [Refuse(spec.job, words)]
    assert stage.state(spec.job) == "refused"


def test_a_cluster_that_can_grow_keeps_larger_jobs_waiting():
    controller = Controller(Fifo(), Pack(), nodes(4), config=ControllerConfig(most_gpus=16))
    assert controller.tick(0.0, [e.Submitted(job("big", 9))]) == []
    assert controller.table["big"].state is JobState.PENDING


def test_a_decision_outside_of_a_jobs_bounds_is_the_policys_defect(live, policy):
    policy.want(a=5)
    with pytest.raises(PolicyError, match=r"policy scripted, job a: 5 replicas is outside"):
        live.tick(0.0, [e.Submitted(job("a", 1, to=4))])


def test_exact_placements_are_validated(live, policy):
    policy.next = Decision({"a": replicas(2)}, placements={"a": on(3)})
    with pytest.raises(PolicyError, match="is no placement of 2 replicas"):
        live.tick(0.0, [e.Submitted(job("a", 1, to=4))])
    assert live.table.cluster.placement("a") == NOWHERE


def test_an_exact_placement_waits_for_slots_that_others_give_back(live, policy):
    run_with(live, policy, "a", 6)
    policy.next = Decision({"b": replicas(4)}, placements={"b": on(4)})
    assert live.tick(1.0, [e.Submitted(job("b", 1, to=4, at=1.0))]) == []
    assert live.table["b"].reason == "no room for 4 replicas yet: 2 GPUs are free"
    policy.next = Decision({"b": replicas(4)}, placements={"b": on(4)})
    assert live.tick(2.0, [e.Finished("a")]) == [Start("b", replicas(4), on(4), resume=False)]


def test_jobs_exchange_their_slots_where_that_takes_no_time(policy):
    controller = Controller(policy, Pack(), nodes(4, 4), config=ControllerConfig(instant=True))
    policy.want(a=4, b=4)
    controller.tick(0.0, [e.Submitted(job("a", 1, to=4)), e.Submitted(job("b", 1, to=4))])
    there = {name: controller.table.cluster.placement(name) for name in "ab"}
    policy.next = Decision({"a": replicas(4), "b": replicas(4)}, placements={"a": there["b"], "b": there["a"]})
    controller.tick(1.0, [e.NodeJoined(Node("n2", 1))])
    assert {name: controller.table.cluster.placement(name) for name in "ba"} == {"a": there["b"], "b": there["a"]}
    controller.validate()


def test_slots_are_not_left_for_places_that_are_not_free(policy):
    controller = Controller(policy, Pack(), nodes(4, 4), config=ControllerConfig(instant=True))
    policy.want(a=2, b=4)
    controller.tick(0.0, [e.Submitted(job("a", 1, to=4)), e.Submitted(job("b", 4))])
    (taken,) = controller.table.cluster.placement("b").nodes
    policy.next = Decision({"a": replicas(3)}, placements={"a": Placement(((taken, 3),))})
    controller.tick(1.0, [e.NodeJoined(Node("n2", 1))])
    assert controller.table["a"].gpus == 2
    controller.validate()


def test_a_tenant_never_exceeds_its_limit_whatever_the_policy_wants(policy):
    controller = Controller(policy, Pack(), nodes(8), TenantTree([Tenant("t", limit_gpus=3)]))
    policy.want(a=2, b=2)
    controller.tick(0.0, [e.Submitted(job("a", 1, to=4)), e.Submitted(job("b", 1, to=4))])
    assert controller.table.usage["t"] == 2
    assert controller.table["b"].reason == "tenant t holds 2 of its 3 GPUs"


def test_the_event_clock_waits_out_its_gap():
    policy = Scripted(EventDriven(min_gap_s=10.0))
    controller = Controller(policy, Pack(), nodes(8))
    controller.tick(0.0, [e.Submitted(job("a"))])
    assert controller.tick(4.0, [e.Submitted(job("b", at=4.0))]) == [Wake(10.0)]
    controller.tick(10.0, [e.Timer()])
    assert policy.asked_s == [0.0, 10.0]
    assert controller.tick(30.0, [e.Timer()]) == []
    assert policy.asked_s == [0.0, 10.0]


def test_a_wake_inside_of_the_gap_waits_for_its_end():
    policy = Scripted(EventDriven(min_gap_s=10.0))
    policy.next = Decision(wake_at_s=3.0)
    controller = Controller(policy, Pack(), nodes(8))
    assert controller.tick(0.0, [e.Submitted(job("a"))]) == [Wake(10.0)]
    controller.tick(10.0, [e.Timer()])
    assert policy.asked_s == [0.0, 10.0]


def test_rounds_record_events_and_decide_on_time():
    policy = Scripted(Rounds(60.0))
    controller = Controller(policy, Pack(), nodes(8))
    assert controller.tick(30.0, [e.Submitted(job("a", at=30.0))]) == [Wake(60.0)]
    policy.want(a=1)
    assert controller.tick(60.0, [e.Timer()]) == [Start("a", replicas(1), on(1), resume=False), Wake(120.0)]
    controller.tick(70.0, [e.Finished("a")])
    assert policy.asked_s == [60.0]


def test_a_policy_is_woken_when_it_asked_for_it(live, policy):
    policy.next = Decision(wake_at_s=7.0)
    assert live.tick(0.0, [e.Submitted(job("a"))]) == [Wake(7.0)]
    live.tick(7.0, [e.Timer()])
    assert policy.asked_s == [0.0, 7.0]


def test_questions_about_unknown_jobs_and_ids_given_twice_are_errors(live, policy):
    with pytest.raises(UnknownJob, match="there is no job x"):
        live.explain("x")
    live.tick(0.0, [e.Submitted(job("a"))])
    with pytest.raises(RaytideError, match="job a was submitted before"):
        live.tick(0.0, [e.Submitted(job("a"))])
