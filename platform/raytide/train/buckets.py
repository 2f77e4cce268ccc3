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
        self.views = self.split(self.flat)

    def split(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Each parameter's part of a buffer laid out like :attr:`flat`, in its shape."""
        parts = flat.split([p.numel() for p in self.params])
        return tuple(part.view(p.shape) for part, p in zip(parts, self.params, strict=True))


def make_buckets(params: Sequence[nn.Parameter]) -> list[Bucket]:
    """Pack parameters, last ones first: backward reaches them first.

    The order depends on the parameters alone, so that a newcomer's buckets are those of a survivor.
    """
    buckets: list[Bucket] = []
    open_buckets: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    limit = FIRST_BUCKET_BYTES
    for param in reversed(params):
        pack = open_buckets.setdefault((param.dtype, param.device), [])
        pack.append(param)
        if sum(p.numel() * p.element_size() for p in pack) >= limit:
            buckets.append(Bucket(pack))
            del open_buckets[param.dtype, param.device]
            limit = BUCKET_BYTES
    buckets.extend(Bucket(pack) for pack in open_buckets.values())
    return buckets
