"""State that moves: taken apart, sent, put together; and what the registry makes of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from raytide.collective import Group
from raytide.errors import ConfigError, StateMismatch
from raytide.train.captured import capture
from raytide.train.guards import guard_methods, guard_optimizer
from raytide.train.registry import Registry
from raytide.train.rollback import BoundarySnapshot, OptimizerUndo
from raytide.train.transfer import gather_objects, receive_state, send_state
from support.plain_loops import mlp
from support.ranks import Ranks, ranks

ODD = {
    "wide": torch.arange(12.0).reshape(3, 4).t(),
    "none": torch.zeros(0, 3),
    "one": torch.tensor(3.5, dtype=torch.float64),
    "flags": torch.tensor([True, False, True]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "half": torch.ones(7, dtype=torch.bfloat16),
    "wave": torch.tensor([1 + 2j], dtype=torch.complex64),
    "plain": [1, ("two", {"three": torch.tensor([2**60])}), None],
}


@pytest.fixture(scope="module")
def world() -> Iterator[Ranks]:
    with ranks() as made:
        yield made


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def test_taken_apart_and_put_together() -> None:
    assert same(capture(ODD).value(), ODD)
    assert same(capture(ODD).cloned().value(), ODD)


def test_any_tensor_arrives_exactly(world: Ranks) -> None:
    def work(rank: int, group: Group) -> Any:
        if rank == 0:
            send_state(group, capture(ODD))
            return ODD
        return receive_state(group, torch.device("cpu")).value()

    assert all(same(got, ODD) for got in world.run(3, work))


def test_large_tensors_travel_in_pieces(world: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raytide.train.transfer.CHUNK_BYTES", 40)
    state = {"a": torch.arange(33.0), "b": torch.arange(5, dtype=torch.int8), "c": torch.arange(21.0).double()}

    def work(rank: int, group: Group) -> Any:
        if rank == 0:
            send_state(group, capture(state))
            return state
        return receive_state(group, torch.device("cpu")).value()

    assert all(same(got, state) for got in world.run(2, work))


def test_gather_records_of_any_length(world: Ranks) -> None:
    records = [b"", b"x" * 1000, b"yz"]
    assert world.run(3, lambda rank, group: gather_objects(group, records[rank])) == [records] * 3


def test_names_depend_on_kind_and_order() -> None:
    registry = Registry()
    model, other = mlp(), mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    assert [registry.add(v) for v in (model, optimizer, other, scheduler)] == [
        "model0",
        "optimizer0",
        "model1",
        "state0",
    ]
    with pytest.raises(ConfigError, match="the same Sequential was given twice"):
        registry.add(model)
    with pytest.raises(ConfigError, match="a int has no state_dict"):
        registry.add(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["model0"].pop("0.bias"), r"model0 \(Sequential\) is another model: missing \['0.bias'\]"),
        (lambda s: s["model0"].update(extra=torch.zeros(1)), r"unexpected \['extra'\]"),
        (lambda s: s["model0"].update({"2.weight": torch.zeros(3, 8)}), r"model0.2.weight has shape \(3, 8\)"),
        (lambda s: s.pop("optimizer0"), "holds model0, but the loop prepared model0, optimizer0"),
        (lambda s: s["optimizer0"]["param_groups"].append({}), r"optimizer0 \(SGD\) does not fit"),
    ],
)
def test_state_of_other_objects_is_refused_by_name(change: Any, message: str) -> None:
    registry = Registry()
    model = mlp()
    registry.add(model)
    registry.add(torch.optim.SGD(model.parameters(), lr=0.1))
    state = copy.deepcopy(registry.state())
    change(state)
    with pytest.raises(StateMismatch, match=message):
        registry.load(state, "here")


def test_the_boundary_is_restored() -> None:
    """Buffers, settings of optimizers, schedulers."""
    registry = Registry()
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=9)
    for value in (model, optimizer, scheduler):
        registry.add(value)
    before = copy.deepcopy((dict(model.named_buffers()), optimizer.param_groups[0]["betas"], scheduler.state_dict()))
    snapshot = BoundarySnapshot(registry)
    model(torch.randn(4, 2))
    optimizer._opt_called = True  # type: ignore[attr-defined] # as schedulers do
    scheduler.step()
    assert optimizer.param_groups[0]["betas"] != before[1]
    snapshot.restore()
    after = (dict(model.named_buffers()), optimizer.param_groups[0]["betas"], scheduler.state_dict())
    assert same(after[0], before[0])
    assert same(after[1:], before[1:])


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop])
def test_an_optimizers_step_is_undone(kind: Any) -> None:
    model = mlp()
    optimizer = kind(model.parameters(), lr=0.1, **({"momentum": 0.9} if kind is not torch.optim.Adam else {}))

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(3, 6, dtype=torch.float64)).sum().backward()
        optimizer.step()

    step()
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    undo = OptimizerUndo(optimizer)
    step()
    undo.restore()
    assert same(dict(model.state_dict()), dict(before[0]))
    assert same(optimizer.state_dict(), before[1])


class Gate:
    def __init__(self) -> None:
        self.open = True
        self.calls: list[str] = []

    def acts(self, value: Any, key: str, *, scales: bool) -> bool:
        self.calls.append(f"{key}{' scales' if scales else ''}")
        return self.open

    def optimizer_step(self, optimizer: Any, step: Any) -> Any:
        self.calls.append("step")
        return step() if self.open else None


def test_guards_come_off_and_leave_no_trace_in_the_state() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cpu")
    gate, keys = Gate(), set(scheduler.state_dict())
    undo = [
        guard_optimizer(optimizer, gate),
        guard_methods(scheduler, "state0", gate),
        guard_methods(scaler, "state1", gate),
    ]
    gate.open = False
    optimizer.step()
    scheduler.step()
    scaler.update()
    assert gate.calls == ["step", "state0.step", "state1.update scales"]
    assert scheduler.last_epoch == 0
    assert set(scheduler.state_dict()) == keys
    assert isinstance(scheduler, torch.optim.lr_scheduler.StepLR)
    for take_off in reversed(undo):
        take_off()
    optimizer.step()
    scheduler.step()
    assert len(gate.calls) == 3
    assert scheduler.last_epoch == 1
    assert type(scheduler) is torch.optim.lr_scheduler.StepLR
