"""The simulator on hand-made traces whose outcome can be computed in the head."""

from __future__ import annotations

import pytest

from raytide.core import Controller, ControllerConfig, Costs, Node, Placement
from raytide.core import events as e
from raytide.policies.fifo import Fifo
from raytide.policies.placement import Count
from raytide.policies.shortest import Srtf
from raytide.sim.simulation import SimJob, Simulation
from raytide.sim.workload import Fixed
from support.scheduling import job, nodes

FREE = Costs()


def simulate(policy, jobs, *, gpus=(8,), costs=FREE, faults=()):
    controller = Controller(policy, Count(), nodes(*gpus), config=ControllerConfig(instant=True, costs=costs))
    sim_jobs = [SimJob(spec, Fixed(spec.duration_s)) for spec in jobs]
    return Simulation(controller, sim_jobs, faults).run(lambda now, arrived: controller.validate())


def ends(result) -> dict[str, float]:
    return {record.job: record.ended_s for record in result.jobs}


def test_jobs_wait_for_each_other():
    result = simulate(Fifo(), [job("a", 8, duration_s=10.0), job("b", 4, at=3.0, duration_s=5.0)])
    assert ends(result) == {"a": 10.0, "b": 15.0}
    assert result.timeline.time_s == [0.0, 3.0, 10.0, 15.0]
    assert result.timeline.held_gpus == [8, 8, 4, 0]
    assert result.timeline.waiting == [0, 1, 0, 0]


def test_ends_come_before_arrivals_of_the_same_instant():
    result = simulate(Fifo(), [job("a", 8, duration_s=10.0), job("b", 8, at=10.0, duration_s=1.0)])
    assert ends(result) == {"a": 10.0, "b": 11.0}


def test_a_preempted_job_goes_on_where_it_was_and_pays_for_coming_back():
    jobs = [job("long", 8, duration_s=100.0), job("short", 8, at=40.0, duration_s=10.0)]
    assert ends(simulate(Srtf(), jobs)) == {"long": 110.0, "short": 50.0}
    costs = Costs(start_s=2.0, resume_s=5.0)
    assert ends(simulate(Srtf(), jobs, costs=costs)) == {"long": 52.0 + 5.0 + 62.0, "short": 52.0}


class Stalls(Fixed):
    """Is asked to report at 2 s, and then no longer expects to end at 3 s."""

    reports = True

    def __init__(self) -> None:
        super().__init__(3.0)
        self.report_s = 2.0

    def report(self, now: float) -> None:
        if now >= self.report_s:
            self.report_s = 10.0
            self.left = 9.0 - now if now < 10.0 else 0.0
            self._rate = 0.0 if now < 10.0 else 1.0
            self._from_s = now


def test_an_end_that_is_no_longer_expected_does_not_happen():
    controller = Controller(Fifo(), Count(), nodes(8), config=ControllerConfig(instant=True))
    result = Simulation(controller, [SimJob(job("a", 8), Stalls())]).run()
    assert ends(result) == {"a": 10.0}


def test_a_lost_node_sends_its_job_back_to_the_queue():
    faults = [(4.0, e.NodeLost("n0")), (20.0, e.NodeJoined(Node("n1", 8)))]
    result = simulate(Fifo(), [job("a", 8, duration_s=10.0)], gpus=(8,), faults=faults)
    assert ends(result) == {"a": 26.0}


def test_a_job_that_can_never_run_is_refused_and_the_rest_goes_on():
    result = simulate(Fifo(), [job("big", 9, duration_s=1.0), job("a", 1, duration_s=1.0)])
    assert [str(record.state) for record in result.jobs] == ["refused", "succeeded"]


def test_the_same_trace_gives_the_same_result():
    jobs = [job(f"j{i}", 1 + i % 5, at=float(i % 7), duration_s=1.0 + i % 11) for i in range(60)]
    assert ends(simulate(Srtf(), jobs)) == ends(simulate(Srtf(), list(jobs)))


@pytest.mark.parametrize(("gpus", "end_s"), [(1, 100.0), (4, 40.0)])
def test_speed_depends_on_the_placement(gpus, end_s):
    work = Fixed(100.0, lambda placement: 1.0 + (placement.total - 1) * 0.5)
    work.run(0.0, Placement((("n0", gpus),)), 0.0)
    assert work.finish_s() == end_s
    work.pause(10.0)
    assert work.finish_s() == float("inf")
