"""Jobs of a fixed batch in rounds of a minute."""

from __future__ import annotations

import math

import pytest

from raytide.core import Placement
from raytide.sim.pollux.rounds import ROUND_S, FixedBatch, rigid_jobs
from raytide.sim.traces import TraceJob

ONE = Placement((("n0", 1),))


def test_it_looks_one_round_ahead(app) -> None:
    """Batch 8 on one GPU: 1.8 s an iteration, 90 and 210 of them in the two epochs, so 540 s and a delay of 30 s."""
    job = FixedBatch("j", app, 8)
    job.run(60.0, ONE, delay_s=30.0)
    for round_ in range(1, 9):
        assert job.finish_s() == math.inf, round_
        job.report(60.0 + round_ * ROUND_S)
    ends = []
    for round_ in range(9, 11):
        ends.append(job.finish_s())
        job.report(60.0 + round_ * ROUND_S)
    assert min(ends) == pytest.approx(60.0 + 30.0 + 300 * 1.8, abs=1.0)


def test_between_rounds_nothing_changes(app) -> None:
    job = FixedBatch("j", app, 8)
    job.run(0.0, ONE, delay_s=0.0)
    job.report(59.0)
    job.pause(60.0)
    assert job.finish_s() == math.inf
    job.run(600.0, ONE, delay_s=0.0)
    for round_ in range(1, 8):
        job.report(600.0 + round_ * ROUND_S)
    assert job.finish_s() == pytest.approx(600.0 + 300 * 1.8 - 60.0, abs=1.0), "the minute before the pause counted"


def test_jobs_have_the_size_and_batch_of_the_trace(app) -> None:
    (job,) = rigid_jobs([TraceJob("j", "t", 5.0, 2, None, "tiny", 16)], {"tiny": app})
    assert (job.spec.requested, job.spec.roles[0].least, job.spec.submitted_s) == (2, 2, 5.0)
