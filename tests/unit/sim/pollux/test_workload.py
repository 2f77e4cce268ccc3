"""A job that adapts its batch: what it tells, when, and what it changes."""

from __future__ import annotations

import math

import pytest

from raytide.core import NOTHING, Controller, ControllerConfig, Costs, Node, Placement
from raytide.core.events import Trained
from raytide.errors import ConfigError
from raytide.policies.placement import Pack
from raytide.policies.tide import Tide
from raytide.sim.pollux.workload import FIRST_REPORT_S, REPORT_S, Adaptive, adaptive_jobs
from raytide.sim.simulation import Simulation
from raytide.sim.traces import TraceJob

ONE, TWO = Placement((("n0", 1),)), Placement((("n0", 2),))


def trace(*names: str) -> list[TraceJob]:
    return [TraceJob(name, "t", 10.0 * i, 2, None, "tiny", 16) for i, name in enumerate(names)]


def told(job: Adaptive, now: float) -> Trained:
    event = job.report(now)
    assert isinstance(event, Trained)
    return event


def test_it_reports_by_itself_once_it_trains_and_then_every_minute(app) -> None:
    job = Adaptive("j", app)
    assert job.report_s == math.inf
    job.run(100.0, TWO, delay_s=30.0)
    assert job.report_s == 130.0 + FIRST_REPORT_S
    told(job, 120.0)
    assert job.report_s == 130.0 + FIRST_REPORT_S, "asked earlier, it still reports when it said"
    told(job, 140.0)
    assert job.report_s == 140.0 + REPORT_S


def test_a_report_holds_progress_and_what_was_measured(app) -> None:
    job = Adaptive("j", app)
    job.run(0.0, TWO, delay_s=30.0)
    assert not told(job, 20.0).training.samples, "nothing is measured during the delay"
    training = told(job, 40.0).training
    (sample,) = training.samples
    assert (sample.gpus, sample.nodes, sample.atomic) == (2, 1, 4)
    assert (sample.step_s, sample.sync_s) == pytest.approx((2.4, 1.0))
    assert training.noise is not None
    assert 0 < training.epochs < 1
    assert training.iterations == pytest.approx(100 * training.epochs * 0.9), "epochs end at the least progress, 90"


def test_it_takes_the_larger_batch_once_noise_says_so(app) -> None:
    small, adapting = Adaptive("a", app), Adaptive("b", app)
    for job in (small, adapting):
        job.run(0.0, TWO, delay_s=0.0)
    before_s = adapting.finish_s()
    told(adapting, 10.0)
    assert adapting.finish_s() < before_s == small.finish_s()


def test_without_gpus_it_stands_still(app) -> None:
    job = Adaptive("j", app)
    job.run(0.0, ONE, delay_s=0.0)
    told(job, 50.0)
    job.pause(100.0)
    assert job.finish_s() == math.inf
    at_rest = told(job, 100.0).training.epochs
    assert told(job, 900.0).training.epochs == at_rest > 0


def test_the_controller_learns_what_jobs_report(app) -> None:
    """Through the simulator: speeds, progress in epochs, and the end."""
    controller = Controller(
        Tide(), Pack(), [Node("n0", 4)], config=ControllerConfig(instant=True, costs=Costs(30.0, 30.0, 30.0))
    )
    jobs = adaptive_jobs(trace("a", "b"), {"tiny": app}, most_gpus=4)
    assert [job.spec.work for job in jobs] == [2.0, 2.0]
    Simulation(controller, jobs).run(lambda _now, _arrived: controller.validate())
    for record in controller.table.all.values():
        assert record.shape == NOTHING
        assert record.ended
        assert record.training.most_gpus >= 2
        assert record.training.noise is not None


def test_an_unknown_application_is_refused(app) -> None:
    with pytest.raises(ConfigError, match=r"job a: there is no application 'tiny'"):
        adaptive_jobs(trace("a"), {"other": app}, 4)
