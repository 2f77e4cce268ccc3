"""Numbers of NCCL's C interface, which never change, and what follows from tensors alone (no GPU needed)."""

from __future__ import annotations

import torch
from torch import Tensor

from raytide.collective.spec import ReduceOp

NCCL_DTYPES = {
    torch.int8: 0,
    torch.uint8: 1,
    torch.int32: 2,
    torch.int64: 4,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.bfloat16: 9,
}
NCCL_OPS = {ReduceOp.SUM: 0, ReduceOp.MAX: 2, ReduceOp.MIN: 3}
# cupy passes the element count of a broadcast as a C int.
BROADCAST_PART = 1 << 30


def are_adjacent(parts: list[Tensor]) -> bool:
    """Whether the tensors lie one after the other in memory, in this order, so that they are one buffer."""
    step = parts[0].numel() * parts[0].element_size()
    first = parts[0].data_ptr()
    return all(part.data_ptr() == first + index * step for index, part in enumerate(parts))


def spans(count: int, part: int = BROADCAST_PART) -> list[tuple[int, int]]:
    """Splits ``count`` elements into (begin, length) pieces of at most ``part``."""
    return [(begin, min(part, count - begin)) for begin in range(0, count, part)]
