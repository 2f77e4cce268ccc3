"""The objects that make up a job's state, in the order they were prepared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from raytide.errors import ConfigError, StateMismatch


class Registry:
    """Registered objects by name (``model0``, ``optimizer0``, ``state0`` ... by kind and order)."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}

    def add(self, value: Any) -> str:
        """Register one object; its name depends on kind and order only, the same on every replica."""
        kind = kind_of(value)
        if any(known is value for known in self._objects.values()):
            raise ConfigError("prepare()", f"the same {type(value).__name__} was given twice", "Prepare each once")
        name = f"{kind}{sum(n.startswith(kind) for n in self._objects)}"
        self._objects[name] = value
        return name

    def clear(self) -> None:
        """Forget everything: the loop starts over and prepares anew."""
        self._objects.clear()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._objects.items())

    def of_kind(self, kind: type) -> list[Any]:
        """Registered objects that are instances of ``kind``."""
        return [value for value in self._objects.values() if isinstance(value, kind)]

    def state(self) -> dict[str, Any]:
        """State of every object; tensors alias the live ones."""
        return {name: value.state_dict() for name, value in self._objects.items()}

    def trainable(self) -> dict[str, list[bool]]:
        """Which parameters of each module are trained: loops may freeze and unfreeze layers as they go."""
        return {n: [p.requires_grad for p in m.parameters()] for n, m in self if isinstance(m, nn.Module)}

    def set_trainable(self, trainable: dict[str, list[bool]]) -> None:
        """Freeze and unfreeze what :meth:`trainable` says."""
        for name, flags in trainable.items():
            for param, flag in zip(self._objects[name].parameters(), flags, strict=True):
                param.requires_grad_(flag)

    def load(self, state: dict[str, Any], where: str) -> None:
        """Load what :meth:`state` gave.

        Raises:
            StateMismatch: The state is that of other objects; names the object and the difference.
        """
        if set(state) != set(self._objects):
            raise StateMismatch(
                f"{where}: holds {', '.join(state) or 'nothing'}, but the loop prepared "
                f"{', '.join(self._objects) or 'nothing'}. Prepare the same objects in the same order"
            )
        for name, value in self._objects.items():
            self._check_tensors(name, value, state[name], where)
        for name, value in self._objects.items():
            try:
                value.load_state_dict(state[name])
                forget_unscaled(value)
            except (RuntimeError, ValueError, KeyError) as error:
                raise StateMismatch(f"{where}: {name} ({type(value).__name__}) does not fit: {error}") from error

    @staticmethod
    def _check_tensors(name: str, value: Any, state: Any, where: str) -> None:
        if not isinstance(value, nn.Module):
            return
        own = value.state_dict()
        missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or extra:
            raise StateMismatch(
                f"{where}: {name} ({type(value).__name__}) is another model: "
                f"missing {missing[:3] or 'nothing'}, unexpected {extra[:3] or 'nothing'}"
            )
        for key, tensor in own.items():
            if isinstance(tensor, torch.Tensor) and tensor.shape != state[key].shape:
                raise StateMismatch(
                    f"{where}: {name}.{key} has shape {tuple(state[key].shape)}, the model's has {tuple(tensor.shape)}"
                )


def kind_of(value: Any) -> str:
    """``model``, ``optimizer`` or ``state``; refuses what has no state."""
    if isinstance(value, nn.Module):
        return "model"
    if isinstance(value, Optimizer):
        return "optimizer"
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
        return "state"
    raise ConfigError(
        "prepare()",
        f"a {type(value).__name__} has no state_dict() and load_state_dict()",
        "Give modules, optimizers, schedulers, scalers, or anything with these two methods",
    )


def forget_unscaled(value: Any) -> None:
    """Let a gradient scaler begin a step anew: between unscale_() and update() it is in the midst of one."""
    if isinstance(value, GradScaler):
        value._per_optimizer_states.clear()
