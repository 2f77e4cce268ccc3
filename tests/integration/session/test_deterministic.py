"""Deterministic mode: results are equal bit for bit at any world size, and over resizes and losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from raytide.train import ShardedStream
from support.plain_loops import BATCH, DATA, Elastic, Run, drawn, plain, positions
from support.threads import Probe, grow, migrate, shrink

SHARDS = 4


def loop(config: dict[str, Any]) -> None:
    """float32, BatchNorm, momentum, a scheduler; 12 samples in 4 shards, 2 in the last step."""
    api, probe = config["api"], config["probe"]
    layers = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)]
    model = drawn(nn.Sequential(*layers)) if config["norm"] else drawn(nn.Sequential(layers[0], *layers[2:]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    api.prepare(model, optimizer, scheduler)
    for _ in api.epochs(3):
        for x, y in api.batches(DATA, global_batch_size=BATCH, shuffle=True, seed=4, drop_last=config["norm"]):
            probe("begin")
            optimizer.zero_grad()
            ((model(x.float()) - y.float()) ** 2).mean().backward()
            probe("step")
            optimizer.step()
            probe("stepped")
            scheduler.step()
    config["run"].keep(api.get_context().get_world_rank(), model, *model.buffers())


def bits(norm: bool, replicas: int, probe: Probe | None = None, **options: Any) -> Run:
    return Elastic(loop, replicas, probe, virtual_shards=SHARDS, config={"norm": norm}, **options).finish()


def same_bits(run: Run, expected: Run) -> None:
    assert run.finals
    for tensors in run.finals.values():
        assert all(torch.equal(a, b) for a, b in zip(tensors, expected.finals[0], strict=True))


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "BatchNorm"])
@pytest.mark.parametrize("replicas", [2, 3, 4, 6])
def test_world_size_does_not_show(replicas: int, norm: bool) -> None:
    same_bits(bits(norm, replicas), bits(norm, 1))


@pytest.mark.parametrize(
    "probe",
    [
        Probe().at(0, 1, "begin", grow(3)).at(0, 7, "begin", shrink(0, 2)),
        Probe().at(0, 2, "begin", migrate(0)),
        Probe().at(0, 1, "begin", grow(2)).kill(1, 6, "step").kill(0, 9, "stepped"),
    ],
    ids=["grow and shrink", "migrate", "kills"],
)
def test_resizes_and_losses_do_not_show(probe: Probe, tmp_path: Path) -> None:
    run = bits(False, 1, probe, trace=str(tmp_path))
    same_bits(run, bits(False, 1))
    positions(tmp_path)


def test_it_is_still_the_whole_batchs_gradient() -> None:
    got, want = bits(False, 2).finals[0], plain(loop, norm=False).finals[0]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(got, want, strict=True))


def test_what_cannot_be_deterministic_is_refused() -> None:
    def streams(config: dict[str, Any]) -> None:
        config["api"].prepare(drawn(nn.Linear(1, 1)))
        for _ in config["api"].batches(ShardedStream(["a"], lambda n, o: iter([])), global_batch_size=4):
            pass

    def small(config: dict[str, Any]) -> None:
        config["api"].prepare(drawn(nn.Linear(1, 1)))
        for _ in config["api"].batches(DATA, global_batch_size=40, max_local_batch=8):
            pass

    for bad, message in ((streams, "virtual_shards=0"), (small, "Set virtual_shards to at least 5")):
        run = Elastic(bad, 1, virtual_shards=SHARDS).finish("failed")
        assert message in run.job.ended.error
