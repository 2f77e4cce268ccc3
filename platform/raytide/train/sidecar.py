"""What travels beside the gradients: who used what, rank 0's buffers, and a mark of the place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

MAX_FOLLOWED_NUMEL = 1 << 16
"""Larger buffers (masks, caches) are constants in practice; they follow rank 0 when state moves only."""

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Sidecar:
    """One vector of 64-bit integers for a backward pass, reduced with SUM.

    Each rank adds 1 for everything it counted and its mark; rank 0 alone adds the bits of its buffers, so
    that they arrive exactly, whatever their type.

    Args:
        modules: The modules whose buffers follow rank 0.
        num_counts: How many things are counted.
        device: Where the vector is reduced.
    """

    def __init__(self, modules: Sequence[nn.Module], num_counts: int, device: torch.device) -> None:
        self.buffers = [buffer for module in modules for buffer in followed_buffers(module)]
        self._num_counts = num_counts
        self._size = 1 + num_counts + sum(_num_integers(b) for b in self.buffers)
        self._device = device
        self.vector = torch.zeros(self._size, dtype=torch.int64, device=device)

    def renew(self) -> None:
        """Take a new vector, after a failed generation."""
        self.vector = torch.zeros(self._size, dtype=torch.int64, device=self._device)

    def fill(self, mark: int, counts: Sequence[int], *, leads: bool) -> None:
        """Write this rank's part."""
        start = 1 + self._num_counts
        self.vector[:start] = torch.tensor([mark, *counts], dtype=torch.int64)
        if not self.buffers:
            return
        if leads:
            torch.cat([_bits(b).to(self._device) for b in self.buffers], out=self.vector[start:])
        else:
            self.vector[start:] = 0

    def read(self) -> tuple[int, list[int]]:
        """The sums of the marks and of the counts."""
        mark, *counts = self.vector[: 1 + self._num_counts].tolist()
        return mark, counts

    def load_buffers(self) -> None:
        """Take over rank 0's buffers."""
        start = 1 + self._num_counts
        for buffer in self.buffers:
            stop = start + _num_integers(buffer)
            # Past autograd's version counter: the pass may be run again (retain_graph), and what a buffer
            # is now has no part in it.
            buffer.data.copy_(_from_bits(self.vector[start:stop], buffer))
            start = stop


def followed_buffers(module: nn.Module) -> list[Tensor]:
    """Buffers that are part of the state and small enough to be the same on all ranks after every step."""
    names = set(module.state_dict(keep_vars=True))
    return [b for n, b in module.named_buffers() if n in names and b.numel() <= MAX_FOLLOWED_NUMEL]


def _num_integers(buffer: Tensor) -> int:
    return buffer.numel() * (2 if buffer.is_complex() else 1)


def _bits(buffer: Tensor) -> Tensor:
    flat = (torch.view_as_real(buffer) if buffer.is_complex() else buffer).detach().reshape(-1)
    if flat.is_floating_point():
        flat = flat.view(_BITS[flat.element_size()])
    return flat.to(torch.int64)


def _from_bits(bits: Tensor, like: Tensor) -> Tensor:
    real = torch.view_as_real(like) if like.is_complex() else like
    values = bits.to(_BITS[real.element_size()]).view(real.dtype) if real.is_floating_point() else bits.to(real.dtype)
    shaped = values.view(real.shape)
    return torch.view_as_complex(shaped) if like.is_complex() else shaped
