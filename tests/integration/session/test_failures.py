"""Replicas are killed at every point of a step: results equal those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.plain_loops import Elastic, equal, full_loop, plain, positions
from support.threads import Probe, grow

EXPECTED = plain(full_loop)


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_an_undisturbed_run_equals_plain_pytorch(replicas: int, tmp_path: Path) -> None:
    run = Elastic(full_loop, replicas, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert [r.metrics["counted"] for r in run.job.reports if r.rank == 0] == [20.0] * 3


PLACES = ["begin", "forward", "backward", "step", "stepped", "reduced", "end"]


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("place", PLACES)
def test_kill_at_every_place_of_a_step(place: str, rank: int, tmp_path: Path) -> None:
    probe = Probe().kill(rank, 6, place)
    run = Elastic(full_loop, 3, probe, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)


@pytest.mark.parametrize("place", [*PLACES, "validation", "in validation", "validated", "report", "reported"])
def test_kill_around_the_end_of_an_epoch(place: str, tmp_path: Path) -> None:
    probe = Probe().kill(1, 9, place)
    run = Elastic(full_loop, 3, probe, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)


@pytest.mark.parametrize("place", [*PLACES, "validation", "in validation", "report", "finished"])
def test_kill_around_the_end_of_training(place: str, tmp_path: Path) -> None:
    probe = Probe().kill(0, 14, place)
    run = Elastic(full_loop, 3, probe, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)


@pytest.mark.parametrize(("first", "second"), [("backward", "step"), ("stepped", "stepped"), ("reduced", "begin")])
def test_two_kills_in_one_step(first: str, second: str) -> None:
    probe = Probe().kill(2, 6, first).kill(1, 6, second)
    equal(Elastic(full_loop, 4, probe).finish(), EXPECTED)


def test_two_kills_in_a_row() -> None:
    probe = Probe().kill(2, 6, "backward").kill(0, 7, "stepped")
    equal(Elastic(full_loop, 4, probe).finish(), EXPECTED)


def test_a_replacement_joins_after_a_kill() -> None:
    probe = Probe().kill(1, 3, "backward").at(0, 6, "begin", lambda job, _: job.wait_world(2))
    run = Elastic(full_loop, 2, probe).finish()
    equal(run, EXPECTED)
    assert run.job.world_sizes == [2, 1, 2]


def test_the_last_replica_is_killed_after_the_others() -> None:
    probe = Probe().kill(1, 3, "step").kill(2, 3, "begin").at(0, 5, "end", grow(2))
    equal(Elastic(full_loop, 3, probe).finish(), EXPECTED)
