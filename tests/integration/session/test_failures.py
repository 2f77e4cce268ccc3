"""Replicas are killed at every point of a step: results equal those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.plain_loops import Elastic, equal, full_loop, plain, positions
from support.threads import Probe, ThreadJob, fall_behind, grow, wait_for_fence

EXPECTED = plain(full_loop)


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_an_undisturbed_run_equals_plain_pytorch(replicas: int, tmp_path: Path) -> None:
    run = Elastic(full_loop, replicas, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert [r.metrics["counted"] for r in run.job.reports if r.rank == 0] == [20.0] * 3


PLACES = ["begin", "forward", "backward", "within backward", "step", "stepped", "reduced", "end"]


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


@pytest.mark.parametrize("step", [6, 9, 14])
@pytest.mark.parametrize(("behind", "victim"), [(0, 2), (1, 2), (1, 0), (2, 1)])
def test_one_rank_is_a_step_behind(behind: int, victim: int, step: int, tmp_path: Path) -> None:
    """It takes the state of those who applied the step, and goes on behind it as if it had acted.

    Mid-epoch, in the last step of an epoch, and in the last one of all; the others wait for it in a collective
    behind the step.
    """
    probe = Probe().at(behind, step, "step", fall_behind(victim))
    run = Elastic(full_loop, 3, probe, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)


@pytest.mark.parametrize("step", [6, 9, 14])
def test_the_only_rank_a_step_ahead_is_lost(step: int, tmp_path: Path) -> None:
    """What only the dead had applied has not happened: the step is done again."""
    probe = Probe().kill(0, step, "stepped").at(1, step, "step", wait_for_fence).at(2, step, "step", wait_for_fence)
    run = Elastic(full_loop, 3, probe).finish()
    equal(run, EXPECTED)


@pytest.mark.parametrize("where", ["gather", "send", "receive"])
def test_second_loss_during_a_recovery(where: str, tmp_path: Path) -> None:
    """One dies while the survivors exchange records, or while one of them hands its state to another."""
    fired: list[str] = []

    def wound(job: ThreadJob, replica: str) -> None:
        # Rank 3 falls behind: rank 0 sends its state to it. Rank 1 has a part in the exchange of records.
        name = job.member({"gather": 1, "send": 0, "receive": 3}[where])
        carrier: Any = job.runtimes[name].session.standing.carrier
        inner = getattr(carrier, where)

        def dies(*arguments: Any) -> Any:
            if not fired:
                fired.append(name)
                job.kill(name)
            return inner(*arguments)

        setattr(carrier, where, dies)

    probe = Probe().at(0, 5, "begin", wound).at(3, 6, "step", fall_behind(2))
    run = Elastic(full_loop, 4, probe, trace=str(tmp_path)).finish()
    assert fired
    equal(run, EXPECTED)
    positions(tmp_path)
