"""Frames: what ranks exchange over a control group, all of one size and marked with what it is.

Ranks whose programs have parted may meet each other in different calls. Frames of one size can meet without
harm, and the mark shows it; operations of different sizes would end the process, over gloo.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from raytide.collective import Group, ReduceOp, Work

_NUMBERS = 64
_NUMBERS_PER_RANK = 2


class FramesParted(Exception):
    """The ranks met in different calls."""


def _size(group: Group) -> int:
    return _NUMBERS + _NUMBERS_PER_RANK * group.world_size


def vote_frame(group: Group, numbers: Sequence[int]) -> Tensor:
    """A frame of whole numbers; the rest are zeros."""
    frame = torch.zeros(_size(group), dtype=torch.int64)
    frame[: len(numbers)] = torch.tensor(numbers, dtype=torch.int64)
    return frame


def start_vote(group: Group, frame: Tensor) -> Work:
    """Reduce a frame with MAX."""
    return group.control.all_reduce(frame, ReduceOp.MAX)


def sum_over(group: Group, mark: int, values: Sequence[float]) -> list[float]:
    """Sum ``values`` over the ranks, which must all come with the same mark and number of values.

    Raises:
        CollectiveError: The group failed.
        FramesParted: The ranks met in different calls.
    """
    size, head = _size(group), 2
    frame = torch.zeros(size, dtype=torch.float64)
    fits = len(values) <= size - head
    frame[0], frame[1] = float(mark), float(len(values))
    if fits:
        frame[head : head + len(values)] = torch.tensor(list(values), dtype=torch.float64)
    group.control.all_reduce(frame).wait()
    expected = [float(mark) * group.world_size, float(len(values)) * group.world_size]
    if frame[:head].tolist() != expected:
        raise FramesParted
    if fits:
        return [float(v) for v in frame[head : head + len(values)].tolist()]
    rest = torch.tensor(list(values), dtype=torch.float64)
    group.control.all_reduce(rest).wait()
    return [float(v) for v in rest.tolist()]
