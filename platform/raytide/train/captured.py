"""The state of registered objects as one value: a skeleton of plain Python, and a list of tensors.

The skeleton is small and pickled; tensors travel and are written as they are.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorRef:
    """Stands in a skeleton for tensor number ``index``."""

    index: int


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a tensor, and whether it lives on the job's device."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    on_device: bool

    def empty(self, device: torch.device) -> Tensor:
        """A new tensor of this kind."""
        return torch.empty(self.shape, dtype=self.dtype, device=device if self.on_device else "cpu")


@dataclass(frozen=True)
class Captured:
    """State, taken apart. ``tensors`` may alias the live objects until :meth:`cloned`."""

    skeleton: Any
    tensors: tuple[Tensor, ...]

    @property
    def size_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors)

    def cloned(self, device: str | None = None) -> Captured:
        """The same state in memory of its own, on ``device`` if given."""
        if device is None:
            return Captured(self.skeleton, tuple(t.detach().clone() for t in self.tensors))
        return Captured(self.skeleton, tuple(t.detach().to(device, copy=True) for t in self.tensors))

    def header(self) -> bytes:
        """Everything but the tensors' contents."""
        specs = [TensorSpec(tuple(t.shape), t.dtype, t.device.type != "cpu") for t in self.tensors]
        return pickle.dumps((self.skeleton, specs))

    def value(self) -> Any:
        """Put together again."""
        return _join(self.skeleton, self.tensors)


def capture(value: Any) -> Captured:
    """Take a nest of dicts, lists and tuples apart."""
    tensors: list[Tensor] = []
    skeleton = _split(value, tensors)
    return Captured(skeleton, tuple(tensors))


def read_header(header: bytes) -> tuple[Any, list[TensorSpec]]:
    """Skeleton and tensor specs of :meth:`Captured.header`. Only for headers of the same job's replicas."""
    skeleton, specs = pickle.loads(header)  # noqa: S301 - comes from a member of the same job
    return skeleton, specs


def _split(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors.append(value.detach())
        return TensorRef(len(tensors) - 1)
    if isinstance(value, Mapping):
        return {key: _split(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_split(item, tensors) for item in value) if _is_plain(value) else value
    return value


def _join(value: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(value, TensorRef):
        return tensors[value.index]
    if isinstance(value, Mapping):
        return {key: _join(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_join(item, tensors) for item in value) if _is_plain(value) else value
    return value


def _is_plain(value: Any) -> bool:
    return type(value) in (list, tuple)
