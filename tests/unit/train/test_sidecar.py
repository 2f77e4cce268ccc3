"""What travels beside the gradients arrives exactly."""

from __future__ import annotations

import torch
from torch import nn

from raytide.train.sidecar import Sidecar


def test_buffers_of_any_type_arrive_exactly() -> None:
    class Odd(nn.Module):
        def __init__(self, fill: float) -> None:
            super().__init__()
            self.register_buffer("big", torch.tensor([2**60 + 1]) if fill else torch.tensor([0]))
            self.register_buffer("wave", torch.tensor([complex(fill, -fill)]))
            self.register_buffer("short", torch.tensor([fill, float("nan"), -0.0], dtype=torch.bfloat16))
            self.register_buffer("flag", torch.tensor(bool(fill)))
            self.register_buffer("empty", torch.zeros(0))
            self.register_buffer("whole", torch.tensor([[fill, float("inf")]], dtype=torch.float64))

    source, target = Odd(1.5), Odd(0.0)
    leading = Sidecar([source], 2, torch.device("cpu"))
    leading.fill(7, [1, 0], leads=True)
    following = Sidecar([target], 2, torch.device("cpu"))
    following.vector.copy_(leading.vector)
    following.load_buffers()
    for name, buffer in source.named_buffers():
        assert torch.equal(buffer.nan_to_num(9.0), getattr(target, name).nan_to_num(9.0)), name
    assert following.read() == (7, [1, 0])
