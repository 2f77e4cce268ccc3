"""What belongs to a model besides its weights: buffers that follow rank 0, layers that are frozen and unfrozen."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.utils.data import Subset

from raytide.train.session import current_session
from support.plain_loops import BATCH, DATA, Elastic, equal, mlp, plain
from support.threads import Probe, grow, shrink


def test_buffers_follow_rank_0() -> None:
    """After every step all ranks have rank 0's buffers, dummies and repeated steps included."""
    records: dict[int, list[list[torch.Tensor]]] = {}

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4, momentum=0.3), nn.Linear(4, 1)).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        api.prepare(model, optimizer)
        context = api.get_context()
        for _ in api.epochs(2):
            for x, y in api.batches(config["data"], global_batch_size=12, max_local_batch=4):
                probe("begin")
                model.train(len(x) > 1)
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                probe("step")
                optimizer.step()
                if context.ends_step and not context.rehearsing and not current_session().engine.repeats:
                    buffers = [b.clone() for b in model.buffers()]
                    records.setdefault(context.step, []).append(buffers)
            model.eval()
            before = [b.clone() for b in model.buffers()]
            for x, _ in api.batches(config["data"], global_batch_size=12, train=False):
                model(x)
            assert context.rehearsing or all(torch.equal(a, b) for a, b in zip(before, model.buffers(), strict=True))
        config["run"].keep(context.get_world_rank(), model)

    data = copy.deepcopy(DATA)
    probe = Probe().kill(1, 3, "step").at(0, 6, "begin", grow(1)).at(0, 8, "begin", shrink(0))
    run = Elastic(loop, 3, probe, config={"data": data}).finish()
    assert sorted(records) == list(range(1, 11))
    for step, buffers in records.items():
        for other in buffers[1:]:
            assert all(torch.equal(a, b) for a, b in zip(buffers[0], other, strict=True)), step
        assert int(buffers[0][2]) <= 4 * step
    finals = list(run.finals.values())
    assert all(torch.equal(a, b) for a, b in zip(finals[0], finals[-1], strict=True))


def test_batch_norm_on_ranks_without_samples() -> None:
    """Four samples on five ranks with BatchNorm, which refuses a batch of one: dummies have two."""

    def loop(config: dict[str, Any]) -> None:
        api = config["api"]
        model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
        api.prepare(model, optimizer := torch.optim.SGD(model.parameters(), lr=0.01))
        for _ in api.epochs(2):
            for x, y in api.batches(Subset(DATA, range(2)), global_batch_size=2, equal_shares=False):
                model.train(len(x) > 1)
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
        config["run"].keep(api.get_context().get_world_rank(), *model.buffers())

    run = Elastic(loop, 4).finish()
    assert all(torch.equal(a, b) for a, b in zip(run.finals[0], run.finals[3], strict=True))


def test_batch_norm_of_one_replica_is_plain_pytorch() -> None:
    def loop(config: dict[str, Any]) -> None:
        api = config["api"]
        model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for param in model.parameters():
                param.normal_(generator=generator)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        api.prepare(model, optimizer)
        for _ in api.epochs(2):
            for x, y in api.batches(DATA, global_batch_size=BATCH):
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
        config["run"].keep(0, model, *model.buffers())

    equal(Elastic(loop, 1).finish(), plain(loop))


def test_layers_unfrozen_during_training() -> None:
    """Whoever joins later knows which layers are trained."""

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = mlp()
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        api.prepare(model, optimizer)
        for epoch in api.epochs(3):
            if epoch == 1:
                model[0].requires_grad_(True)
            for x, y in api.batches(DATA, global_batch_size=BATCH):
                probe("begin")
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
        config["run"].keep(api.get_context().get_world_rank(), model)

    probe = Probe().at(0, 11, "begin", grow(1)).kill(0, 14, "begin")
    equal(Elastic(loop, 2, probe).finish(), plain(loop))
