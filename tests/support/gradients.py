"""What tests of gradient reduction share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raytide.collective import CollectiveError


class Events:
    """Hears what a reducer says."""

    def __init__(self) -> None:
        self.errors: list[CollectiveError] = []
        self.parted_at: list[str] = []
        self.restored = 0
        self.kept: list[bool] = []

    def before_reduction(self) -> bool:
        return True

    def fail(self, error: CollectiveError) -> None:
        self.errors.append(error)

    def parted(self) -> None:
        self.parted_at.append("here")

    def restore_buffers(self) -> None:
        self.restored += 1

    def next_shard(self, *, keep: bool) -> None:
        self.kept.append(keep)

    def end_shards(self) -> None:
        pass


class Branches(nn.Module):
    """Which branch is used depends on the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high, self.never = (nn.Linear(6, 1).double() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        low = x[:, :1] < 0
        out = torch.zeros(len(x), 1, dtype=x.dtype)
        if low.any():
            out = out + torch.where(low, self.low(x), 0.0)
        if not low.all():
            out = out + torch.where(low, 0.0, self.high(x))
        return out


def grads(modules: list[nn.Module]) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for m in modules for p in m.parameters()]


def assert_same(got: list[Tensor | None], want: list[Tensor | None], limit: float = 1e-12) -> None:
    assert [g is None for g in got] == [w is None for w in want]
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        if g is not None and w is not None:
            assert float((g - w).norm()) <= limit * max(float(w.norm()), 1e-30), f"gradient {number}"
