"""Early stops: one rank asks, all ranks end at the same step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from support.plain_loops import BATCH, DATA, Elastic, equal, mlp, plain
from support.threads import Probe, grow


def loop(config: dict[str, Any]) -> None:
    """Stops behind the second epoch, or within it; one rank decides."""
    api, probe = config["api"], config["probe"]
    model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    context, passes = api.get_context(), 0
    for epoch in api.epochs(5):
        for x, y in api.batches(DATA, global_batch_size=BATCH, shuffle=True):
            probe("begin")
            optimizer.zero_grad()
            hidden = model[0](x)
            # Reached when the last layer's gradients, and with them the vote, have been waited for.
            hidden.register_hook(lambda grad: probe("within backward"))
            ((model[1:](hidden) - y) ** 2).mean().backward()
            probe("step")
            optimizer.step()
            # A survivor that had not applied the step yet does it again, and may have another rank by then.
            decides = context.get_world_rank() == min(config["rank"], context.get_world_size() - 1)
            if decides and context.step == config.get("step"):
                context.stop_training()
        passes += not context.rehearsing
        if epoch == config.get("epoch") and context.get_world_rank() == config["rank"]:
            context.stop_training()
    config["run"].keep(context.get_world_rank(), model, context.step)


@pytest.mark.parametrize("rank", [0, 1])
def test_stop_behind_an_epoch_is_its_end(rank: int) -> None:
    expected = plain(loop, rank=0, epoch=1)
    assert int(expected.finals[0][-1]) == 10
    run = Elastic(loop, 2, config={"rank": rank, "epoch": 1}).finish()
    equal(run, expected)
    assert sorted(run.finals) == [0, 1]


@pytest.mark.parametrize(("lost", "grows"), [(0, False), (2, True)], ids=["old", "new"])
@pytest.mark.parametrize("place", ["begin", "within backward", "step"])
def test_stop_survives_a_loss_in_its_step(lost: int, grows: bool, place: str) -> None:
    """The step whose vote carried the wish is done again, and is the last one."""
    probe = Probe().kill(lost, 6, place)
    if grows:
        probe.at(0, 2, "begin", grow(1))
    run = Elastic(loop, 2, probe, config={"rank": 1, "step": 6}).finish()
    assert {int(tensors[-1]) for tensors in run.finals.values()} == {7}


def test_stop_within_an_epoch_ends_all_ranks_at_the_same_step() -> None:
    run = Elastic(loop, 3, config={"rank": 2, "step": 6}).finish()
    assert [int(tensors[-1]) for tensors in run.finals.values()] == [7, 7, 7]


def test_stop_meets_a_newcomer() -> None:
    """A newcomer that is ready when the job stops neither trains nor holds anybody up."""
    probe = Probe().at(0, 5, "begin", grow(1))
    run = Elastic(loop, 2, probe, config={"rank": 1, "step": 6}).finish()
    assert {int(tensors[-1]) for tensors in run.finals.values()} == {7}
