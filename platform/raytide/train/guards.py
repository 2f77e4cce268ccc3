"""Guards on prepared objects: what ``step()`` and friends do depends on whether the step counts.

The loop stays plain PyTorch. Inside the micro-batches of one step, after a failed reduction, and during
a newcomer's rehearsal, these calls do nothing; only the last micro-batch's ``step()`` acts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Protocol

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

GUARDED = ("step", "update", "unscale_", "update_parameters")
"""Calls that end a step: of schedulers, scalers, averages of weights, and whatever else is prepared."""

Undo = Callable[[], None]


class Gate(Protocol):
    """Decides what guarded calls do."""

    def acts(self, value: Any, key: str, *, scales: bool) -> bool:
        """Whether the call named ``key`` on ``value`` has an effect now."""

    def optimizer_step(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        """Run (or not) one optimizer's step."""


def guard_optimizer(optimizer: Optimizer, gate: Gate) -> Undo:
    """Route ``optimizer.step`` through the gate; returns what takes the guard off."""
    inner = optimizer.step

    # A scheduler made before prepare() has replaced the bound method by a function.
    @functools.wraps(getattr(inner, "__func__", inner))
    def step(self: Optimizer, closure: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        # The schedulers of torch look at this to warn about a wrong order of calls.
        self._opt_called = True  # type: ignore[attr-defined]  # torch looks for it, its stubs do not
        if closure is None:
            return gate.optimizer_step(self, lambda: inner(*args, **kwargs))
        # A closure is forward and backward: it belongs to the batch, whether or not the step counts.
        with torch.enable_grad():
            loss = closure()
        gate.optimizer_step(self, lambda: inner(*args, **kwargs))
        return loss

    before = vars(optimizer).get("step")
    optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]  # to guard it is the point

    def undo() -> None:
        if before is None:
            del optimizer.step
        else:
            optimizer.step = before  # type: ignore[method-assign]  # back to what it was

    return undo


def guard_methods(value: Any, name: str, gate: Gate) -> Undo:
    """Guard the calls of ``value`` (registered as ``name``) that end a step; returns what takes the guards off.

    The object gets a subclass of its own class: an attribute of the object itself would become part of its
    ``state_dict()``, which for torch's schedulers is their ``__dict__``.
    """
    kind, scales = type(value), isinstance(value, GradScaler)
    calls = [call for call in GUARDED if callable(getattr(kind, call, None))]
    if not calls:
        return lambda: None
    guarded = {c: _guarded(getattr(kind, c), gate, f"{name}.{c}", scales=scales) for c in calls}
    value.__class__ = type(kind.__name__, (kind,), guarded)

    def undo() -> None:
        value.__class__ = kind

    return undo


def _guarded(method: Callable[..., Any], gate: Gate, key: str, *, scales: bool) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs) if gate.acts(self, key, scales=scales) else None

    return call
