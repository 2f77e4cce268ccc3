"""Replicas are killed at every point of a step: results equal those of an undisturbed run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.plain_loops import Elastic, equal, mlp, plain, samples
from support.threads import Probe, grow

DATA = samples(50)
VALIDATION = samples(20, seed=9)


def loop(config: dict[str, Any]) -> None:
    """Two schedulers, user collectives before and behind the step, validation, reports: every call point."""
    api, probe = config["api"], config["probe"]
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    per_step = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    model, optimizer, per_step = api.prepare(model, optimizer, per_step)
    context, sums = api.get_context(), []
    for _ in api.epochs(3):
        for x, y in api.batches(DATA, global_batch_size=12, shuffle=True, seed=1):
            probe("begin")
            total = context.all_reduce([float(x.sum())])[0]
            probe("forward")
            output = model(x)
            output.register_hook(lambda grad: probe("backward"))
            loss = ((output - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            probe("step")
            optimizer.step()
            probe("stepped")
            squares = context.all_reduce([float((x * x).sum())])[0]
            probe("reduced")
            per_step.step()
            probe("end")
            if context.step % 4 == 0:
                sums.append((total, squares))
        probe("validation")
        counted = 0.0
        for x, y in api.batches(VALIDATION, global_batch_size=8, train=False):
            counted += len(x)
            probe("in validation")
        probe("validated")
        counted = context.all_reduce([counted])[0]
        probe("report")
        api.report({"counted": counted})
        probe("reported")
    probe("finished")
    config["run"].keep(context.get_world_rank(), model, optimizer.param_groups[0]["lr"])


EXPECTED = plain(loop)
STEPS = 15


def positions(folder: Path) -> None:
    """The applied steps are the whole of every epoch, each position in one step, in order."""
    lines = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    steps = sorted({(n["step"], n["epoch"], n["cursor"], n["cursor_after"]) for n in lines})
    want = [(e * 5 + i, e, 12 * i, min(50, 12 * i + 12)) for e in range(3) for i in range(5)]
    assert steps == want


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_an_undisturbed_run_equals_plain_pytorch(replicas: int, tmp_path: Path) -> None:
    run = Elastic(loop, replicas, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert [r.metrics["counted"] for r in run.job.reports if r.rank == 0] == [20.0] * 3


PLACES = ["begin", "forward", "backward", "step", "stepped", "reduced", "end"]


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("place", PLACES)
def test_kill_at_every_place_of_a_step(place: str, rank: int, tmp_path: Path) -> None:
    probe = Probe().kill(rank, 6, place)
    run = Elastic(loop, 3, probe, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)


@pytest.mark.parametrize("place", [*PLACES, "validation", "in validation", "validated", "report", "reported"])
def test_kill_around_the_end_of_an_epoch(place: str, tmp_path: Path) -> None:
    probe = Probe().kill(1, 9, place)
    run = Elastic(loop, 3, probe, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)


@pytest.mark.parametrize("place", [*PLACES, "validation", "in validation", "report", "finished"])
def test_kill_around_the_end_of_training(place: str, tmp_path: Path) -> None:
    probe = Probe().kill(0, 14, place)
    run = Elastic(loop, 3, probe, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)


@pytest.mark.parametrize(("first", "second"), [("backward", "step"), ("stepped", "stepped"), ("reduced", "begin")])
def test_two_kills_in_one_step(first: str, second: str) -> None:
    probe = Probe().kill(2, 6, first).kill(1, 6, second)
    equal(Elastic(loop, 4, probe).finish(), EXPECTED)


def test_two_kills_in_a_row() -> None:
    probe = Probe().kill(2, 6, "backward").kill(0, 7, "stepped")
    equal(Elastic(loop, 4, probe).finish(), EXPECTED)


def test_a_replacement_joins_after_a_kill() -> None:
    probe = Probe().kill(1, 3, "backward").at(0, 6, "begin", lambda job, _: job.wait(lambda: job._all_connected()))
    run = Elastic(loop, 2, probe).finish()
    equal(run, EXPECTED)
    assert run.job.world_sizes == [2, 1, 2]


def test_the_last_replica_is_killed_after_the_others() -> None:
    probe = Probe().kill(1, 3, "step").kill(2, 3, "begin").at(0, 5, "end", grow(2))
    equal(Elastic(loop, 3, probe).finish(), EXPECTED)
