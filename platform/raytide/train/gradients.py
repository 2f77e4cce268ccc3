"""The gradients of one module, gathered in buckets as backward produces them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from raytide.train.buckets import Bucket, make_buckets


@dataclass(frozen=True)
class MicroBatch:
    """How the gradients of the coming backward pass count.

    Attributes:
        weight: Its samples as a part of the global batch's; 0 for the dummy of a rank without samples.
        first: It begins the step.
        last: It ends the step: its gradients are reduced.
        several: The step has more than one.
        shard: In the deterministic mode the number of the virtual shard it is; -1 otherwise.
        num_shards: Virtual shards with samples in this step, on all ranks together.
    """

    weight: float
    first: bool
    last: bool
    several: bool
    shard: int = -1
    num_shards: int = 0


class ModuleGradients:
    """Gradients of one module.

    A gradient enters its bucket weighted. Where autograd adds to a gradient that a reduction has handed out
    (a second backward pass of a step), the bucket holds the reduced sum *s* of the first pass, the same on
    every rank; weighting ``s + g`` is exact, because the weights of all ranks add up to 1.

    Args:
        module: The module; hooks are put on its trainable parameters.
        foreign: Parameters that another prepared module brought in before.
        on_grad: Called for every gradient that backward completes.

    Attributes:
        seen: Parameters that got a gradient in this backward pass.
        used: Parameters that got one in any micro-batch of this step.
    """

    def __init__(
        self,
        module: nn.Module,
        foreign: Collection[nn.Parameter],
        on_grad: Callable[[ModuleGradients, nn.Parameter], None],
    ) -> None:
        self.module = module
        self.seen: set[nn.Parameter] = set()
        self.used: set[nn.Parameter] = set()
        self._own = [p for p in module.parameters() if p not in foreign]
        self._on_grad = on_grad
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []
        self._trainable: list[bool] = []
        self.buckets: list[Bucket] = []
        self.params: list[nn.Parameter] = []
        self.place: dict[nn.Parameter, tuple[Bucket, int]] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Follow a change of ``requires_grad`` (layers frozen or unfrozen); returns whether there was one."""
        trainable = [p.requires_grad for p in self._own]
        if trainable == self._trainable:
            return False
        self.detach()
        self._trainable = trainable
        self.buckets = make_buckets([p for p in self._own if p.requires_grad])
        self.params = [p for bucket in self.buckets for p in bucket.params]
        self.place = {p: (b, i) for b in self.buckets for i, p in enumerate(b.params)}
        self._hooks = [p.register_post_accumulate_grad_hook(self._hook) for p in self.params]
        return True

    def _hook(self, param: Tensor) -> None:
        assert isinstance(param, nn.Parameter)
        self._on_grad(self, param)

    def detach(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    @property
    def device(self) -> torch.device:
        """Where the gradients are."""
        return self._own[0].device if self._own else torch.device("cpu")

    def begin_step(self) -> None:
        self.used.clear()

    def begin_backward(self) -> None:
        self.seen.clear()
        for bucket in self.buckets:
            bucket.missing = len(bucket.params)

    def stage(self, param: nn.Parameter, micro: MicroBatch) -> None:
        """Put a gradient that is complete into its bucket."""
        bucket, index = self.place[param]
        assert param.grad is not None
        if micro.weight and not micro.first and param in self.used:
            bucket.views[index].add_(param.grad.detach(), alpha=micro.weight)
        else:
            _weigh(param.grad, bucket.views[index], micro.weight)
        self.used.add(param)
        if not micro.last:
            param.grad = None
        if param not in self.seen:
            self.seen.add(param)
            bucket.missing -= 1

    def stage_unseen(self, micro: MicroBatch) -> None:
        """Fill the places of parameters without a gradient from this backward pass."""
        for param in self.params:
            if param in self.seen or (micro.several and param in self.used):
                continue
            bucket, index = self.place[param]
            _weigh(None if micro.several else param.grad, bucket.views[index], micro.weight)

    def counts(self, micro: MicroBatch) -> list[int]:
        """First whether this backward pass reached the module, then per parameter whether it has a gradient."""
        if micro.weight == 0.0:
            return [int(bool(self.seen)), *[0] * len(self.params)]
        if micro.several:
            return [int(bool(self.seen)), *[int(p in self.used) for p in self.params]]
        return [int(bool(self.seen)), *[int(p.grad is not None) for p in self.params]]

    def hand_out(self, counts: list[int]) -> None:
        """Give every parameter its reduced gradient; one that no rank used has none, as in plain PyTorch."""
        for param, count in zip(self.params, counts, strict=True):
            bucket, index = self.place[param]
            if count:
                _replace_grad(param, bucket.views[index])
            elif param in self.used:
                param.grad = None  # only a dummy batch used it

    def drop(self) -> None:
        """Forget all gradients."""
        for param in self.params:
            param.grad = None

    def renew(self) -> None:
        """A generation failed: its buffers may still be written to, so they are never used again."""
        for bucket in self.buckets:
            bucket.renew()
        self.drop()


def _replace_grad(param: nn.Parameter, view: Tensor) -> None:
    """Make ``view`` the gradient of a parameter, and keep the memory of the one it had until this one is dropped.

    Freed right after backward, that memory goes back to the system, and the next backward pays for it page by page
    (seen: 6 % of a step). Dropped by ``zero_grad()``, as in plain PyTorch, it is used again at once.
    """
    before = param.grad
    if before is None or before.data_ptr() == view.data_ptr():
        param.grad = before if before is not None else view
        return
    handed = view.view_as(view)
    handed.memory_of_backward = before  # type: ignore[attr-defined] # rides on the tensor
    param.grad = handed


def _weigh(grad: Tensor | None, view: Tensor, weight: float) -> None:
    if grad is None or weight == 0.0:
        view.zero_()  # not a product with zero: the gradient of a dummy batch may be infinite
    elif grad.data_ptr() == view.data_ptr():
        view.mul_(weight)
    else:
        torch.mul(grad.detach(), weight, out=view)
