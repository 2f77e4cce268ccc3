"""Gradients after reduction are those of plain PyTorch on the whole global batch."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raytide.collective import Group
from raytide.errors import RaytideError
from raytide.train.buckets import FIRST_BUCKET_BYTES, make_buckets
from raytide.train.data import shares
from raytide.train.gradients import MicroBatch
from raytide.train.reducer import GradientReducer
from support.gradients import Branches, Events, assert_same, grads
from support.plain_loops import drawn, mlp, samples
from support.ranks import Ranks, ranks

X, Y = samples(12).tensors


@pytest.fixture(scope="module")
def world() -> Iterator[Ranks]:
    with ranks() as made:
        yield made


def micros(rank: int, size: int, count: int, limit: int | None = None) -> list[tuple[Any, MicroBatch]]:
    """This rank's micro-batches of a global batch: slices of the samples, and how they count."""
    share = shares(0, count, size)[rank]
    if not len(share):
        return [(slice(0, 1), MicroBatch(0.0, first=True, last=True, several=False))]
    parts = -(-len(share) // (limit or len(share)))
    cuts = shares(share.start, len(share), parts)
    return [
        (slice(c.start, c.stop), MicroBatch(len(c) / count, first=i == 0, last=i == parts - 1, several=parts > 1))
        for i, c in enumerate(cuts)
    ]


Loss = Callable[[list[nn.Module], Tensor, Tensor], Tensor]


def mse(modules: list[nn.Module], x: Tensor, y: Tensor) -> Tensor:
    return ((modules[0](x) - y) ** 2).mean()


def reduced(
    world: Ranks,
    size: int,
    modules: list[nn.Module],
    loss: Loss = mse,
    count: int = 12,
    limit: int | None = None,
    steps: int = 2,
    set_to_none: bool = True,
) -> None:
    """Compare every rank's gradients with the whole batch's, over some steps."""
    want_modules = copy.deepcopy(modules)
    loss(want_modules, X[:count], Y[:count]).backward()
    want = grads(want_modules)

    def work(rank: int, group: Group) -> list[Tensor | None]:
        mine, events = copy.deepcopy(modules), Events()
        reducer = GradientReducer(events)
        for module in mine:
            reducer.add(module)
        for step in range(steps):
            for module in mine:
                module.zero_grad(set_to_none=set_to_none)
            for part, micro in micros(rank, size, count, limit):
                reducer.begin(micro, group, step)
                loss(mine, X[part], Y[part]).backward()
        assert not events.errors
        assert not events.parted_at
        return grads(mine)

    for got in world.run(size, work):
        assert_same(got, want)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("limit", [None, 2])
def test_uneven_shares_and_micro_batches(world: Ranks, size: int, limit: int | None) -> None:
    reduced(world, size, [mlp()], limit=limit)


def test_memory_of_backward_is_freed_with_the_gradient(world: Ranks) -> None:
    """Not before: the next backward would have to fetch it from the system again, page by page."""
    model = mlp()

    def work(rank: int, group: Group) -> tuple[list[bool], list[bool]]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        made: list[weakref.ref[Tensor]] = []
        for param in mine.parameters():
            param.register_post_accumulate_grad_hook(lambda p: made.append(weakref.ref(p.grad)))
        reducer.add(mine)
        for part, micro in micros(rank, 2, 12):
            reducer.begin(micro, group)
            mse([mine], X[part], Y[part]).backward()
        held = [ref() is not None for ref in made]
        mine.zero_grad()
        return held, [ref() is not None for ref in made]

    for held, left in world.run(2, work):
        assert all(held)
        assert len(held) == len(list(model.parameters()))
        assert not any(left)


def test_several_passes_hold_memory_once(world: Ranks) -> None:
    """Gradients that are never dropped do not pile up what earlier passes were given."""

    def work(rank: int, group: Group) -> int:
        mine, reducer = mlp(), GradientReducer(Events())
        reducer.add(mine)
        for _ in range(3):
            for part, micro in micros(rank, 2, 12):
                reducer.begin(micro, group)
                mse([mine], X[part], Y[part]).backward()
        kept = next(iter(mine.parameters())).grad
        depth = 0
        while (kept := getattr(kept, "memory_of_backward", None)) is not None:
            depth += 1
        return depth

    assert world.run(2, work) == [1, 1]


@pytest.mark.parametrize(("size", "limit"), [(3, None), (1, 5), (2, 5)])
def test_gradients_zeroed_in_place(world: Ranks, size: int, limit: int | None) -> None:
    reduced(world, size, [mlp()], set_to_none=False, steps=3, limit=limit)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_ranks_without_samples_add_nothing(world: Ranks, poison: float, set_to_none: bool) -> None:
    """Two samples on four ranks; the dummies' losses are poisoned."""
    model = mlp()
    want = copy.deepcopy(model)
    mse([want], X[:2], Y[:2]).backward()

    def work(rank: int, group: Group) -> tuple[list[Tensor | None], int]:
        mine, events = copy.deepcopy(model), Events()
        reducer = GradientReducer(events)
        reducer.add(mine)
        for step in range(2):
            mine.zero_grad(set_to_none=set_to_none)
            for part, micro in micros(rank, 4, 2):
                reducer.begin(micro, group, step)
                factor = 1.0 if micro.weight else poison
                (mse([mine], X[part], Y[part]) * factor).backward()
        return grads([mine]), events.restored

    for rank, (got, restored) in enumerate(world.run(4, work)):
        assert_same(got, grads([want]))
        assert restored == (2 if rank >= 2 else 0)


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_unused_parameters(world: Ranks, limit: int | None, set_to_none: bool) -> None:
    """Used on some ranks only, and nowhere: those have no gradient, so that optimizers skip them."""
    reduced(world, 3, [drawn(Branches())], limit=limit, set_to_none=set_to_none, steps=2)
    reduced(world, 5, [drawn(Branches())], limit=limit, count=3)


def test_only_a_dummy_uses_a_parameter(world: Ranks) -> None:
    """The gradient of a rank without samples does not make a parameter count as used."""
    model = drawn(Branches())
    count = 1

    def work(rank: int, group: Group) -> list[Tensor | None]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        reducer.add(mine)
        for part, micro in micros(rank, 2, count):
            reducer.begin(micro, group)
            x = X[part].clone()
            x[:, 0] = -1.0 if rank == 0 else 1.0
            mse([mine], x, Y[part]).backward()
        return [None if p.grad is None else p.grad for p in (mine.low.weight, mine.high.weight)]

    for low, high in world.run(2, work):
        assert low is not None
        assert high is None


def test_shared_and_frozen_parameters(world: Ranks) -> None:
    tied = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    tied[2].weight = tied[0].weight
    tied[4].weight.requires_grad_(False)
    reduced(world, 3, [drawn(tied)], limit=3)


def test_several_dtypes_in_one_model(world: Ranks) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 4).double(), nn.Linear(4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(torch.tanh(self.first(x)).float()).double()

    model = Mixed()
    want = copy.deepcopy(model)
    mse([want], X, Y).backward()

    def work(rank: int, group: Group) -> list[Tensor | None]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        reducer.add(mine)
        for part, micro in micros(rank, 3, 12, 3):
            reducer.begin(micro, group)
            mse([mine], X[part], Y[part]).backward()
        return grads([mine])

    for got in world.run(3, work):
        assert_same(got, grads([want]), 1e-5)


def test_bf16(world: Ranks) -> None:
    model = mlp().bfloat16()
    want = copy.deepcopy(model)
    mse([want], X.bfloat16(), Y.bfloat16()).backward()

    def work(rank: int, group: Group) -> list[Tensor | None]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        reducer.add(mine)
        for part, micro in micros(rank, 3, 12):
            reducer.begin(micro, group)
            mse([mine], X[part].bfloat16(), Y[part].bfloat16()).backward()
        return grads([mine])

    for got in world.run(3, work):
        assert all(g is not None and g.dtype is torch.bfloat16 for g in got)
        assert_same(got, grads([want]), 0.05)


def test_two_backward_passes_add_up(world: Ranks) -> None:
    """Without zero_grad between them, also where the second one does not reach every parameter."""
    model = drawn(Branches())

    def both(module: nn.Module, x: Tensor, y: Tensor, begin: Callable[[], None] = lambda: None) -> None:
        begin()
        mse([module], x, y).backward()
        (module.low(x) ** 2).mean().backward()

    want = copy.deepcopy(model)
    both(want, X, Y)

    def work(rank: int, group: Group, size: int) -> list[Tensor | None]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        reducer.add(mine)
        for part, micro in micros(rank, size, 12):
            reducer.begin(micro, group)
            both(mine, X[part], Y[part])
        return grads([mine])

    for size in (1, 3):
        for got in world.run(size, lambda rank, group, size=size: work(rank, group, size)):
            assert_same(got, grads([want]))


def test_two_backward_passes_with_a_dummy(world: Ranks) -> None:
    model = mlp()
    want = copy.deepcopy(model)
    for _ in range(2):
        mse([want], X[:2], Y[:2]).backward()

    def work(rank: int, group: Group) -> list[Tensor | None]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        reducer.add(mine)
        for part, micro in micros(rank, 3, 2):
            reducer.begin(micro, group)
            for _ in range(2):
                mse([mine], X[part], Y[part]).backward()
        return grads([mine])

    for got in world.run(3, work):
        assert_same(got, grads([want]))


def test_zero_grad_between_two_backward_passes(world: Ranks) -> None:
    """What only the first pass used has no gradient after the second."""
    model = drawn(Branches())
    want = copy.deepcopy(model)
    (want.low(X) ** 2).mean().backward()

    def work(rank: int, group: Group) -> list[Tensor | None]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        reducer.add(mine)
        for part, micro in micros(rank, 2, 12):
            reducer.begin(micro, group)
            mse([mine], X[part], Y[part]).backward()
            mine.zero_grad()
            (mine.low(X[part]) ** 2).mean().backward()
        return grads([mine])

    for got in world.run(2, work):
        assert_same(got, grads([want]))


def test_retain_graph_with_batch_norm(world: Ranks) -> None:
    """The pass can be run again although buffers of the other ranks were taken over in between."""
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()

    def work(rank: int, group: Group) -> tuple[list[Tensor | None], list[Tensor]]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        reducer.add(mine)
        for part, micro in micros(rank, 2, 12):
            reducer.begin(micro, group)
            loss = mse([mine], X[part], Y[part])
            loss.backward(retain_graph=True)
            first = grads([mine])
            mine.zero_grad()
            loss.backward()
            assert_same(grads([mine]), first)
        return first, [b.clone() for b in mine.buffers()]

    (first, buffers), (other, followed) = world.run(2, work)
    assert_same(first, other)
    assert all(torch.equal(a, b) for a, b in zip(buffers, followed, strict=True))


def test_two_models_of_which_a_rank_reaches_one_only(world: Ranks) -> None:
    """Which module a pass reaches may differ between the ranks, in kind and in order."""

    def loss(modules: list[nn.Module], x: Tensor, y: Tensor) -> Tensor:
        low, high = x[x[:, 0] < 0], x[x[:, 0] >= 0]
        parts = [(modules[0](low) ** 2).sum()] if len(low) else []
        parts += [(modules[1](high) ** 4).sum()] if len(high) else []
        return torch.stack(parts).sum() / len(x)

    reduced(world, 5, [mlp(1), mlp(2), mlp(3)], loss, steps=3)
    reduced(world, 3, [mlp(1), mlp(2)], loss, limit=1)


def test_modules_that_share_parameters(world: Ranks) -> None:
    """An encoder prepared alone and inside a model counts once."""
    whole = mlp()
    modules = [whole[0], whole]
    want = copy.deepcopy(whole)
    mse([want], X, Y).backward()

    def work(rank: int, group: Group) -> list[Tensor | None]:
        first, mine = copy.deepcopy(modules)
        reducer = GradientReducer(Events())
        reducer.add(first)
        reducer.add(mine)
        for part, micro in micros(rank, 2, 12):
            reducer.begin(micro, group)
            mse([mine], X[part], Y[part]).backward()
        return grads([mine])

    for got in world.run(2, work):
        assert_same(got, grads([want]))


def test_layers_unfrozen_later(world: Ranks) -> None:
    model = mlp()
    model[0].requires_grad_(False)
    want = copy.deepcopy(model)
    want.requires_grad_(True)
    mse([want], X, Y).backward()

    def work(rank: int, group: Group) -> list[Tensor | None]:
        mine, reducer = copy.deepcopy(model), GradientReducer(Events())
        reducer.add(mine)
        for step in range(2):
            mine[0].requires_grad_(step == 1)
            mine.zero_grad()
            reducer.layout()
            for part, micro in micros(rank, 2, 12):
                reducer.begin(micro, group, step)
                mse([mine], X[part], Y[part]).backward()
        return grads([mine])

    for got in world.run(2, work):
        assert_same(got, grads([want]))


def test_backward_twice_for_a_split_batch_is_refused(world: Ranks) -> None:
    model = mlp()
    reducer = GradientReducer(Events())
    reducer.add(model)

    def work(rank: int, group: Group) -> None:
        for part, micro in micros(0, 1, 12, 6):
            reducer.begin(micro, group)
            mse([model], X[part], Y[part]).backward()
            mse([model], X[part], Y[part]).backward()

    with pytest.raises(RaytideError, match="add the losses and call backward\\(\\) once"):
        world.run(1, work)


def test_ranks_in_different_steps_are_noticed(world: Ranks) -> None:
    """One rank skipped a backward pass: gradients of two steps must not be added up."""

    def work(rank: int, group: Group) -> tuple[list[str], bool]:
        mine, events = mlp(), Events()
        reducer = GradientReducer(events)
        reducer.add(mine)
        reducer.begin(MicroBatch(0.5, first=True, last=True, several=False), group, 3 + rank)
        mse([mine], X, Y).backward()
        return events.parted_at, bool(events.errors)

    assert world.run(2, work) == [(["here"], False)] * 2


def test_rehearsal_and_validation_leave_gradients_alone(world: Ranks) -> None:
    model, want = mlp(), mlp()
    reducer = GradientReducer(Events())
    reducer.add(model)
    reducer.begin(None, None)
    mse([model], X[:3], Y[:3]).backward()
    mse([want], X[:3], Y[:3]).backward()
    assert_same(grads([model]), grads([want]))


def test_hooks_go_with_the_reducer() -> None:
    """A loop that starts over may prepare the same module again."""
    model = mlp()
    first, second = GradientReducer(Events()), GradientReducer(Events())
    first.add(model)
    first.clear()
    second.add(model)
    assert all(len(p._post_accumulate_grad_hooks or {}) == 1 for p in model.parameters())


def test_bucket_order_depends_on_the_module_alone() -> None:
    """A newcomer's buckets are those of a survivor."""
    shape = FIRST_BUCKET_BYTES // 8 // 4
    module = nn.ParameterList([nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for _ in range(9)])
    buckets = make_buckets(list(module.parameters()))
    packed = [p for b in buckets for p in b.params]
    assert [id(p) for p in packed] == [id(p) for p in reversed(list(module.parameters()))]
    assert [len(b.params) for b in buckets] == [4, 5]
