"""Jobs whose speed depends on more than the number of GPUs: what the view says, and what progress is counted."""

from __future__ import annotations

import pytest

from raytide.core import (
    Controller,
    ControllerConfig,
    Decision,
    EventDriven,
    JobSpec,
    LinearSpeed,
    Node,
    Placement,
    Role,
    ServerSpeed,
    TypedSpeed,
)
from raytide.core.events import Resized, Started, Submitted, Timer
from raytide.policies.fifo import Fifo
from raytide.policies.placement import Count
from support.scheduling import job

MIXED = [Node("slow", 4, "T4"), Node("fast", 4, "A100")]
SPEEDS = {"net": TypedSpeed({"T4": LinearSpeed(1.0), "A100": LinearSpeed(5.0)}), "plain": LinearSpeed(2.0)}


def controller(policy=None, **config) -> Controller:
    return Controller(policy or Fifo(), Count(), MIXED, config=ControllerConfig(speeds=SPEEDS, **config))


def test_the_view_knows_types_and_placements():
    scene = controller(instant=True)
    scene.tick(0, [Submitted(job("net", 2, model="net")), Submitted(job("plain", 2, model="plain"))])
    view = scene.view()
    net, plain = view.jobs["net"], view.jobs["plain"]
    assert [view.speed(net, gpu_type).speed(2) for gpu_type in ("T4", "A100")] == [2.0, 10.0]
    assert view.speed(net).speed(2) == 2.0
    assert view.speed_at(net, Placement((("fast", 2),))) == 10.0
    assert view.speed_at(net, Placement((("fast", 1), ("slow", 1)))) == 2.0, "all wait for the slowest"
    assert view.speed(plain, "A100").speed(2) == view.speed_at(plain, Placement((("fast", 2),))) == 4.0
    assert view.speed_at(net, Placement()) == 0.0


class Mover:
    """Starts a job on the slow node and moves it to the fast one at 10 s."""

    name = "mover"
    clock = EventDriven()

    def decide(self, view):
        there = Placement(((("slow" if view.now < 10 else "fast"), 2),))
        moved = [record for record in view if view.cluster.placement(record.job) != there]
        shapes = {record.job: record.requested for record in moved}
        return Decision(shapes, placements=dict.fromkeys(shapes, there), wake_at_s=10.0)

    def why_waiting(self, view, job):
        return ""


def test_a_job_that_moves_to_faster_gpus_makes_progress_accordingly():
    scene = controller(Mover(), instant=True)
    scene.tick(0, [Submitted(job("net", 2, model="net", work=100.0))])
    scene.tick(10, [Timer()])
    assert scene.table["net"].work_left(10) == 80.0
    assert scene.table["net"].work_left(14) == 40.0


def test_until_a_move_is_done_it_is_as_slow_as_where_it_was():
    scene = controller(Mover())
    scene.tick(0, [Submitted(job("net", 2, model="net", work=100.0))])
    scene.tick(0, [Started("net")])
    scene.tick(10, [Timer()])
    scene.tick(14, [Resized("net")])
    assert scene.table["net"].work_left(14) == 72.0
    assert scene.table["net"].work_left(16) == 52.0


def test_progress_of_a_job_with_servers_follows_its_shape():
    roles = (Role("worker", 2, 2), Role("server", 1, 1))
    speeds = {"served": ServerSpeed(compute_s=4.0, transfer_s=1.0)}
    scene = Controller(Fifo(), Count(), MIXED, config=ControllerConfig(instant=True, speeds=speeds))
    scene.tick(0, [Submitted(JobSpec("a", "t", 0.0, roles, 2, work=10.0, model="served"))])
    view = scene.view()
    assert view.shape_speed(view.jobs["a"], view.jobs["a"].shape) == 0.25
    assert scene.table["a"].work_left(8) == 8.0
    scene.tick(8, [Submitted(JobSpec("b", "t", 8.0, roles, 2))])
    unknown = scene.view().jobs["b"]
    assert scene.view().shape_speed(unknown, unknown.shape) == pytest.approx(2 / 3), "the scarcest role counts most"
