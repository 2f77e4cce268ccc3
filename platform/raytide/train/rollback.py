"""What a step may change before it is certain, and how that is taken back.

Weights change in ``optimizer.step()`` only, which does nothing in a failed step. Buffers, schedulers, scalers
and other registered state may have changed: they return to their snapshot of the boundary. With
several optimizers, the ones that stepped before the failure keep an undo copy.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from raytide.train.registry import Registry


class BoundarySnapshot:
    """Buffers and small state as they were when the step began."""

    def __init__(self, registry: Registry) -> None:
        self._buffers = [(b, b.detach().clone()) for m in registry.of_kind(nn.Module) for b in m.buffers()]
        self._states = [
            (value, copy.deepcopy(value.state_dict()))
            for _, value in registry
            if not isinstance(value, (nn.Module, Optimizer))
        ]

    def restore(self) -> None:
        """Take the step's side effects back."""
        with torch.no_grad():
            for buffer, before in self._buffers:
                buffer.copy_(before)
        for value, state in self._states:
            value.load_state_dict(state)

    def restore_buffers(self) -> None:
        """Take back what a batch without samples did to the buffers."""
        with torch.no_grad():
            for buffer, before in self._buffers:
                buffer.copy_(before)


class OptimizerUndo:
    """Everything one ``optimizer.step()`` changes, as it was before."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._params = [(p, p.detach().clone()) for p in _params(optimizer)]
        self._state = copy.deepcopy(optimizer.state_dict())

    def restore(self) -> None:
        """Undo the step."""
        with torch.no_grad():
            for param, before in self._params:
                param.copy_(before)
        self._optimizer.load_state_dict(self._state)


def _params(optimizer: Optimizer) -> list[Tensor]:
    groups: list[dict[str, Any]] = optimizer.param_groups
    return [p for group in groups for p in group["params"]]
