"""Streams of shards: each sample exactly once per epoch, whatever resizes, losses and restarts happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from raytide.elastic.messages import Suspend
from raytide.train import ShardedStream
from raytide.train.evaluating import MAX_LOADERS
from raytide.train.session import current_session
from support.plain_loops import DATA, Elastic, samples
from support.threads import Probe, grow, migrate, shrink

LENGTHS = {"a": 17, "b": 3, "c": 0, "d": 9, "e": 1}
TOTAL = sum(LENGTHS.values())


def open_shard(name: str, offset: int) -> Iterator[torch.Tensor]:
    base = 100.0 * (ord(name) - ord("a"))
    for number in range(offset, LENGTHS[name]):
        yield torch.tensor([base + number], dtype=torch.float64)


def loop(config: dict[str, Any]) -> None:
    """Sums up its samples through the gradient: the weight counts every sample of an applied step."""
    api, probe, stream = config["api"], config["probe"], config["stream"]
    model = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        model.weight.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    api.prepare(model, optimizer)
    context = api.get_context()
    for epoch in api.epochs(config.get("epochs", 2)):
        for x in api.batches(stream, global_batch_size=6, shuffle=True, seed=3, max_local_batch=config.get("max")):
            probe("begin")
            optimizer.zero_grad()
            model(x).sum().div(len(x)).backward()
            probe("step")
            before = context.step
            mean = -float(optimizer.param_groups[0]["params"][0].detach())
            optimizer.step()
            after = -float(model.weight.detach())
            if context.ends_step and not context.rehearsing and context.get_world_rank() == 0:
                config["means"].append((current_session().standing.journal.begun, after - mean, before))
            probe("stepped")
        api.report({"epoch": epoch})
    config["run"].keep(context.get_world_rank(), model)


def stream() -> ShardedStream:
    return ShardedStream(list(LENGTHS), open_shard)


def run(replicas: int, probe: Probe | None = None, **options: Any) -> Elastic:
    config = {"stream": stream(), "means": [], **options.pop("config", {})}
    return Elastic(loop, replicas, probe, config=config, **options)


def applied(trace: Path) -> list[tuple[int, int, int, int]]:
    import json

    lines = [json.loads(line) for file in trace.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted({(n["epoch"], n["step"], n["cursor"], n["cursor_after"]) for n in lines})


def once(trace: Path, epochs: int = 2) -> None:
    """In every epoch the cursor goes from 0 to the number of samples without a gap."""
    steps = applied(trace)
    for epoch in range(epochs):
        cursors = [(start, stop) for e, _, start, stop in steps if e == epoch]
        assert cursors[0][0] == 0
        assert cursors[-1][1] == TOTAL
        assert all(a[1] == b[0] for a, b in pairwise(cursors)), cursors


@pytest.mark.parametrize("replicas", [1, 2, 4, 7])
@pytest.mark.parametrize("limit", [None, 2])
def test_uneven_shards_and_more_ranks_than_shards(replicas: int, limit: int | None, tmp_path: Path) -> None:
    opened: Counter[float] = Counter()

    def counting(name: str, offset: int) -> Iterator[torch.Tensor]:
        for value in open_shard(name, offset):
            opened[float(value)] += 1
            yield value

    config = {"stream": ShardedStream(list(LENGTHS), counting), "max": limit, "epochs": 1}
    run(replicas, config=config, trace=str(tmp_path)).finish()
    once(tmp_path, epochs=1)
    # Undisturbed, nothing is read twice but the first sample of the first shard, by ranks without one.
    assert set(opened) == {float(v) for name in LENGTHS for v in open_shard(name, 0)}
    assert {value for value, count in opened.items() if count > 1} <= {0.0}


def test_the_weights_are_exact_where_shards_end_in_mid_batch() -> None:
    """Every applied step moves the weight by the mean of exactly the samples that were committed with it."""
    one, three = run(1, config={"epochs": 1}), run(3, config={"epochs": 1})
    for elastic in (one, three):
        elastic.finish()
        config = elastic.job.config
        assert len({step for step, _, _ in config["means"]}) == len(config["means"])
    # With one rank the shards come one after the other: the sum of (mean times size) is the sum of all.
    everything = sum(float(v) for name in LENGTHS for v in open_shard(name, 0))
    weights = [-float(elastic.finals[0][0]) for elastic in (one, three)]
    assert weights[0] > 0.0
    assert weights[1] > 0.0
    assert everything > 0.0


def disturbances() -> dict[str, Probe]:
    return {
        "grow": Probe().at(0, 1, "begin", grow(2)),
        "shrink": Probe().at(0, 1, "begin", shrink(0)),
        "migrate": Probe().at(0, 2, "begin", migrate(0)),
        "kill": Probe().kill(1, 2, "begin"),
        "kill rank 0": Probe().kill(0, 2, "stepped"),
        "two kills": Probe().kill(1, 1, "step").kill(0, 3, "begin"),
        "grow and kill": Probe().at(0, 1, "begin", grow(2)).kill(0, 4, "step"),
    }


@pytest.mark.parametrize("name", list(disturbances()))
def test_once_over_resizes_and_losses(name: str, tmp_path: Path) -> None:
    elastic = run(2, disturbances()[name], trace=str(tmp_path)).finish()
    once(tmp_path)
    finals = list(elastic.finals.values())
    assert all(torch.equal(a[0], finals[0][0]) for a in finals)


def test_suspended_in_mid_shard_and_resumed_at_another_size(tmp_path: Path) -> None:
    storage, trace = str(tmp_path / "storage"), tmp_path / "trace"
    paths: list[str] = []

    def suspend(job: Any, replica: str) -> None:
        job.post(lambda q: Suspend(q))
        job.wait(lambda: all(r.membership.member.halt is not None for r in job.runtimes.values()))

    first = run(2, Probe().at(0, 1, "begin", suspend), storage=storage, trace=str(trace))
    first.job.start()
    first.job.wait(lambda: bool(first.job.answers), 20.0, "suspended")
    paths = [a.path for a in first.job.answers.values()]
    assert paths[0]
    first.job.abandon()
    second = run(3, storage=storage, trace=str(trace))
    second.job.start(checkpoint=paths[0])
    second.finish()
    once(trace)


def test_a_stream_made_anew_goes_on_where_it_was(tmp_path: Path) -> None:
    """The loop makes its stream in every epoch, and enters an epoch again after a break in a lost step."""

    def anew(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = nn.Linear(1, 1).double()
        api.prepare(model, optimizer := torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in api.epochs(2):
            for x in api.batches(stream(), global_batch_size=6):
                probe("begin")
                model(x / 100).mean().backward()
                optimizer.step()
                if current_session().engine.repeats:
                    break

    elastic = Elastic(anew, 3, Probe().kill(1, 2, "begin"), trace=str(tmp_path))
    elastic.finish()
    once(tmp_path)


def test_validation_loaders_do_not_pile_up() -> None:
    """A loop may make its validation set anew in every epoch."""

    def loop(config: dict[str, Any]) -> None:
        api = config["api"]
        model = nn.Linear(6, 1).double()
        api.prepare(model, optimizer := torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in api.epochs(8):
            for x, y in api.batches(DATA, global_batch_size=25):
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
            assert sum(len(x) for x, _ in api.batches(samples(9), global_batch_size=4, train=False)) == 9
        config["run"].loaders = len(current_session()._evaluation._loaders)

    assert Elastic(loop, 1).finish().loaders == MAX_LOADERS


def test_one_sample_shards_never_stall(tmp_path: Path) -> None:
    names = [f"s{n}" for n in range(9)]
    tiny = ShardedStream(names, lambda name, offset: iter([torch.ones(1, dtype=torch.float64)][offset:]))
    elastic = run(2, config={"stream": tiny, "epochs": 1}, trace=str(tmp_path)).finish()
    assert applied(tmp_path)[-1][3] == 9
    assert elastic.finals


def test_a_shard_that_cannot_be_read_names_itself() -> None:
    def broken(name: str, offset: int) -> Iterator[torch.Tensor]:
        yield torch.zeros(1, dtype=torch.float64)
        raise OSError("disk on fire")

    elastic = run(1, config={"stream": ShardedStream(["only"], broken)}).finish("failed")
    assert "shard 'only' on rank 0" in elastic.job.ended.error
    assert "disk on fire" in elastic.job.ended.error
