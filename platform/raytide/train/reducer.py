"""Gradient reduction that overlaps with backward and survives the loss of a peer.

After the last ``backward()`` of a step every parameter's ``grad`` is the gradient of the whole global
batch, exactly, whatever the ranks' shares: each rank's (and each micro-batch's) gradient is weighted
with its part of the samples before the sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd import Variable

from raytide.collective import CollectiveError, Group, Work
from raytide.errors import RaytideError
from raytide.train.buckets import Bucket, Sidecar, make_buckets


@dataclass(frozen=True)
class MicroBatch:
    """How the gradients of the coming backward pass count.

    Attributes:
        weight: Its samples as a part of the global batch's; 0 for the dummy of a rank without samples.
        first: It begins the step.
        last: It ends the step: its gradients are reduced.
        several: The step has more than one.
    """

    weight: float
    first: bool
    last: bool
    several: bool


class GradientReducer:
    """Reduces the gradients of one module.

    Args:
        module: The model; hooks are put on its trainable parameters.
        on_failure: Called with the error when a reduction fails. It never raises into the loop: the step
            is lost, and the loop learns it at its next call point.
    """

    def __init__(self, module: nn.Module, on_failure: Callable[[CollectiveError], None]) -> None:
        self._module = module
        self._on_failure = on_failure
        self._buckets = make_buckets(module)
        self._params = [p for bucket in self._buckets for p in bucket.params]
        self._place = {p: (b, i) for b in self._buckets for i, p in enumerate(b.params)}
        device = self._params[0].device if self._params else torch.device("cpu")
        self._sidecar = Sidecar(module, len(self._params), device)
        self._micro: MicroBatch | None = None
        self._group: Group | None = None
        self._seen: set[nn.Parameter] = set()
        self._used: set[nn.Parameter] = set()
        self._works: list[Work] = []
        self._launched = 0
        self._rounds = 0
        self._in_backward = False
        self.wait_s = 0.0
        for param in self._params:
            param.register_post_accumulate_grad_hook(self._on_grad)

    # --- set by the session ------------------------------------------------------------------

    def begin(self, micro: MicroBatch | None, group: Group | None) -> None:
        """Expect the gradients of ``micro`` next; None leaves gradients alone (rehearsal, validation)."""
        self._micro, self._group = micro, group
        if micro is not None and micro.first:
            self._used.clear()
            self._rounds = 0
        self._in_backward = False

    def renew(self) -> None:
        """A generation failed: its buffers may still be written to, so they are never used again."""
        for bucket in self._buckets:
            bucket.renew()
        self._sidecar.renew()
        self._works = []
        self._in_backward = False
        for param in self._params:
            param.grad = None

    # --- during backward ---------------------------------------------------------------------

    @property
    def _trivial(self) -> bool:
        """Nothing to weight and nobody to reduce with: gradients stay where autograd put them."""
        micro, group = self._micro, self._group
        return micro is not None and not micro.several and group is not None and group.world_size == 1

    def _on_grad(self, param: nn.Parameter) -> None:
        if self._micro is None or self._trivial:
            return
        if not self._in_backward:
            self._start_backward(self._micro)
        bucket, index = self._place[param]
        self._add(param, bucket.views[index], self._micro)
        if param not in self._seen:
            self._seen.add(param)
            bucket.missing -= 1
        if self._micro.last:
            self._launch_complete()

    def _start_backward(self, micro: MicroBatch) -> None:
        if self._rounds and micro.several:
            raise RaytideError(
                "backward() was called twice for one batch that is split by max_local_batch: "
                "add the losses and call backward() once, or raise max_local_batch"
            )
        self._in_backward = True
        self._seen.clear()
        self._launched = 0
        for bucket in self._buckets:
            bucket.missing = len(bucket.params)
        # Runs when this backward pass is over, like DDP's; it has no public name.
        Variable._execution_engine.queue_callback(self._end_backward)  # type: ignore[attr-defined]

    def _add(self, param: nn.Parameter, view: Tensor, micro: MicroBatch) -> None:
        grad = param.grad
        assert grad is not None
        fresh = param not in self._used
        if micro.weight == 0.0:
            if fresh:
                view.zero_()  # not a product with zero: the dummy's gradient may be infinite
        elif grad is view or grad.data_ptr() == view.data_ptr():
            view.mul_(micro.weight)  # a second backward: it already holds the reduced sum of the first
        elif fresh or micro.first:
            torch.mul(grad, micro.weight, out=view)
        else:
            view.add_(grad, alpha=micro.weight)
        self._used.add(param)
        if not micro.last:
            param.grad = None

    def _launch_complete(self) -> None:
        """Launch buckets in their fixed order, as far as they are complete."""
        while self._launched < len(self._buckets) and self._buckets[self._launched].missing == 0:
            self._launch(self._buckets[self._launched])

    def _launch(self, bucket: Bucket) -> None:
        self._launched += 1
        group = self._group
        if group is None or group.world_size == 1:
            return
        try:
            self._works.append(group.all_reduce(bucket.flat))
        except CollectiveError as error:
            self._fail(error)

    def _end_backward(self) -> None:
        micro = self._micro
        self._in_backward = False
        if micro is None or not micro.last:
            return
        self._rounds += 1
        self._zero_unused()
        while self._launched < len(self._buckets):
            self._launch(self._buckets[self._launched])
        self._reduce_sidecar(micro)
        self._wait_all()
        if self._group is not None:
            self._hand_out()

    def _zero_unused(self) -> None:
        for param in self._params:
            if param not in self._used:
                bucket, index = self._place[param]
                bucket.views[index].zero_()

    def _reduce_sidecar(self, micro: MicroBatch) -> None:
        group = self._group
        if group is None:
            return
        counted = micro.weight > 0.0
        used = torch.tensor([float(counted and p in self._used) for p in self._params], dtype=torch.float64)
        self._sidecar.fill(used.to(self._sidecar.vector.device), leads=group.rank == 0)
        if group.world_size == 1:
            return
        try:
            self._works.append(group.all_reduce(self._sidecar.vector))
        except CollectiveError as error:
            self._fail(error)

    def _wait_all(self) -> None:
        started_s = time.perf_counter()
        works, self._works = self._works, []
        try:
            for work in works:
                work.wait()
        except CollectiveError as error:
            self._fail(error)
        self.wait_s += time.perf_counter() - started_s

    def _fail(self, error: CollectiveError) -> None:
        if self._group is not None:
            self._group = None
            self._on_failure(error)

    def _hand_out(self) -> None:
        """Give every parameter its reduced gradient; those no rank used keep what they had."""
        used = self._sidecar.used_anywhere()
        for param, anywhere in zip(self._params, used, strict=True):
            bucket, index = self._place[param]
            if anywhere:
                param.grad = bucket.views[index]
            elif param in self._used:
                param.grad = None  # only a dummy batch used it
        if self._group is not None and self._group.rank != 0:
            self._sidecar.load_buffers()
