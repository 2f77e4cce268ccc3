"""Gradient buckets: flat buffers that many small gradients are reduced in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

FIRST_BUCKET_BYTES = 1 << 20
"""The first gradients to be ready start travelling early ..."""

BUCKET_BYTES = 8 << 20
"""... the rest in pieces large enough for bandwidth, small enough to overlap with backward."""


class Bucket:
    """Parameters of one dtype and device whose gradients are reduced in one flat buffer.

    Attributes:
        flat: The buffer; new after every failed generation, because an abandoned operation may still
            write to the old one.
        views: Each parameter's part of the buffer, in its shape.
        missing: Parameters whose gradient has not arrived in this backward pass.
    """

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        self.params = tuple(params)
        self.missing = len(self.params)
        self.flat: Tensor = torch.empty(0)
        self.views: tuple[Tensor, ...] = ()
        self.renew()

    def renew(self) -> None:
        """Take a new buffer."""
        first = self.params[0]
        self.flat = torch.zeros(sum(p.numel() for p in self.params), dtype=first.dtype, device=first.device)
        parts = self.flat.split([p.numel() for p in self.params])
        self.views = tuple(part.view(p.shape) for part, p in zip(parts, self.params, strict=True))


def make_buckets(module: nn.Module) -> list[Bucket]:
    """Pack the trainable parameters of ``module``, last ones first: backward reaches them first.

    The order depends on the module alone, so that a newcomer's buckets are those of a survivor.
    """
    buckets: list[Bucket] = []
    open_buckets: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    limit = FIRST_BUCKET_BYTES
    for param in reversed([p for p in module.parameters() if p.requires_grad]):
        pack = open_buckets.setdefault((param.dtype, param.device), [])
        pack.append(param)
        if sum(p.numel() * p.element_size() for p in pack) >= limit:
            buckets.append(Bucket(pack))
            del open_buckets[param.dtype, param.device]
            limit = BUCKET_BYTES
    buckets.extend(Bucket(pack) for pack in open_buckets.values())
    return buckets


MAX_FOLLOWED_NUMEL = 1 << 16
"""Larger buffers (masks, caches) are constants in practice; they follow rank 0 when state moves only."""


class Sidecar:
    """What travels beside the gradients of a module: which parameters were used, and rank 0's buffers.

    One float64 vector, reduced with SUM: each rank adds 1 for every parameter it used, rank 0 alone adds its
    buffers (float64 holds every float32 and every count below 2**53 exactly).
    """

    def __init__(self, module: nn.Module, num_params: int, device: torch.device) -> None:
        names = set(module.state_dict(keep_vars=True))
        named = [(n, b) for n, b in module.named_buffers() if n in names]
        self.buffers = [b for _, b in named if b.numel() <= MAX_FOLLOWED_NUMEL]
        self._num_params = num_params
        self._size = num_params + sum(b.numel() for b in self.buffers)
        self._device = device
        self.vector = torch.zeros(self._size, dtype=torch.float64, device=device)

    def renew(self) -> None:
        """Take a new vector, after a failed generation."""
        self.vector = torch.zeros(self._size, dtype=torch.float64, device=self._device)

    def fill(self, used: Tensor, *, leads: bool) -> None:
        """Write this rank's part."""
        self.vector[: self._num_params] = used
        if not leads or not self.buffers:
            self.vector[self._num_params :] = 0.0
            return
        flat = [b.reshape(-1).to(self._device, torch.float64) for b in self.buffers]
        torch.cat(flat, out=self.vector[self._num_params :])

    def used_anywhere(self) -> list[bool]:
        """For every parameter, whether any rank used it."""
        return [bool(u) for u in self.vector[: self._num_params].tolist()]

    def load_buffers(self) -> None:
        """Take over rank 0's buffers."""
        start = self._num_params
        for buffer in self.buffers:
            part = self.vector[start : start + buffer.numel()]
            buffer.copy_(part.view(buffer.shape))
            start += buffer.numel()
