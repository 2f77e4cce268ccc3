"""Guards on prepared objects: what ``step()`` and friends do depends on whether the step counts.

The loop stays plain PyTorch. Inside the micro-batches of one step, after a failed reduction, and during
a newcomer's rehearsal, these calls do nothing; only the last micro-batch's ``step()`` acts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Protocol

from torch.optim import Optimizer


class Gate(Protocol):
    """Decides what guarded calls do."""

    def acts(self) -> bool:
        """Whether calls that end a step have an effect now."""

    def optimizer_step(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        """Run (or not) one optimizer's step."""


def guard_optimizer(optimizer: Optimizer, gate: Gate) -> None:
    """Route ``optimizer.step`` through the gate."""
    inner = optimizer.step

    # A scheduler made before prepare() has replaced the bound method by a function.
    @functools.wraps(getattr(inner, "__func__", inner))
    def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        # The schedulers of torch look at this to warn about a wrong order of calls.
        self._opt_called = True  # type: ignore[attr-defined]
        return gate.optimizer_step(self, lambda: inner(*args, **kwargs))

    optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]


def guard_methods(value: Any, gate: Gate) -> None:
    """Guard the calls of a scheduler (``step``) or a gradient scaler (``step``, ``update``, ``unscale_``).

    The object gets a subclass of its own class: an attribute of the object itself would become part of its
    ``state_dict()``, which for torch's schedulers is their ``__dict__``.
    """
    kind = type(value)
    names = [name for name in ("step", "update", "unscale_") if callable(getattr(kind, name, None))]
    if names:
        value.__class__ = type(kind.__name__, (kind,), {n: _guarded(getattr(kind, n), gate) for n in names})


def _guarded(method: Callable[..., Any], gate: Gate) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs) if gate.acts() else None

    return call
