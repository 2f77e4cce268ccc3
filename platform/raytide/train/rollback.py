"""What a step may change before it is certain, and how that is taken back.

Weights change in ``optimizer.step()`` only, which does nothing in a failed step. Buffers, schedulers, scalers
and other registered state may have changed: they return to their snapshot of the boundary. Where a step
has several calls of ``optimizer.step()``, those made before the failure keep an undo copy.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from raytide.train.registry import Registry, forget_unscaled


class BoundarySnapshot:
    """Buffers, optimizer settings and small state as they were when the step began."""

    def __init__(self, registry: Registry) -> None:
        self._buffers = [(b, b.detach().clone()) for m in registry.of_kind(nn.Module) for b in m.buffers()]
        self._kept: list[Tensor] = []
        self._settings = [(optimizer, _settings(optimizer)) for optimizer in registry.of_kind(Optimizer)]
        self._states = [
            (value, copy.deepcopy(value.state_dict()))
            for _, value in registry
            if not isinstance(value, (nn.Module, Optimizer))
        ]

    def restore(self) -> None:
        """Take the step's side effects back."""
        self.restore_buffers()
        for optimizer, settings in self._settings:
            for group, before in zip(optimizer.param_groups, settings, strict=True):
                group.update(copy.deepcopy(before))
        for value, state in self._states:
            value.load_state_dict(state)
            forget_unscaled(value)

    def restore_buffers(self) -> None:
        """Take back what a batch without samples did to the buffers."""
        for buffer, before in self._buffers:
            buffer.data.copy_(before)  # past autograd's version counter: the pass may be run again

    def next_shard(self, *, keep: bool) -> None:
        """Return the buffers to the boundary, and ``keep`` what is in them now for :meth:`end_shards`."""
        if keep:
            self._kept = [b.detach().clone() for b, _ in self._buffers]
        self.restore_buffers()

    def end_shards(self) -> None:
        """Return the buffers to what was kept, if anything was."""
        for (buffer, _), kept in zip(self._buffers, self._kept, strict=False):
            buffer.data.copy_(kept)


class ModuleUndo:
    """The parameters of a module that changes outside optimizers (an average of the weights)."""

    def __init__(self, module: nn.Module) -> None:
        self._params = [(p, p.detach().clone()) for p in module.parameters()]

    def restore(self) -> None:
        """Undo the change; buffers are in the boundary's snapshot."""
        with torch.no_grad():
            for param, before in self._params:
                param.copy_(before)


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


def _settings(optimizer: Optimizer) -> list[dict[str, Any]]:
    return [copy.deepcopy({k: v for k, v in g.items() if k != "params"}) for g in optimizer.param_groups]
