"""Gradient reduction that overlaps with backward and survives the loss of a peer.

After the last ``backward()`` of a step every parameter's ``grad`` is the gradient of the whole global
batch, exactly, whatever the ranks' shares: each rank's (and each micro-batch's) gradient is weighted
with its part of the samples before the sum.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from torch import Tensor, nn
from torch.autograd import Variable

from raytide.collective import CollectiveError, Group, Work
from raytide.elastic.ballot import fingerprint
from raytide.errors import RaytideError
from raytide.train.buckets import Bucket
from raytide.train.gradients import MicroBatch, ModuleGradients
from raytide.train.sidecar import Sidecar

__all__ = ["GradientReducer", "MicroBatch", "Reducer", "ReducerEvents"]

_MARK_ROUNDS = 1 << 10


class ReducerEvents(Protocol):
    """What a reducer tells its owner; nothing of it raises into the loop."""

    def before_reduction(self) -> bool:
        """Whether the ranks are known to be in the same step; asked before the first operation of a step."""

    def fail(self, error: CollectiveError) -> None:
        """A reduction failed: the step is lost, and the loop learns it at its next call point."""

    def parted(self) -> None:
        """The ranks reduce different passes: their programs have parted."""

    def restore_buffers(self) -> None:
        """Take back what a batch without samples did to the buffers."""

    def next_shard(self, *, keep: bool) -> None:
        """Return the buffers to the boundary; ``keep`` those that are there now for :meth:`end_shards`."""

    def end_shards(self) -> None:
        """Return to the kept buffers, if there are any."""


class Reducer(Protocol):
    """Reduces the gradients of all prepared modules.

    Attributes:
        wait_s: Seconds the loop has waited for reductions.
    """

    wait_s: float

    def add(self, module: nn.Module) -> None:
        """Take a module in; every rank does so in the same order."""

    def clear(self) -> None:
        """Let go of all modules."""

    def layout(self) -> int:
        """A fingerprint of what is reduced; follows layers that were frozen or unfrozen."""

    def begin(self, micro: MicroBatch | None, group: Group | None, mark: int = 0) -> None:
        """Expect the gradients of ``micro`` next; None leaves gradients alone (rehearsal, validation)."""

    def renew(self) -> None:
        """A generation failed: never use its buffers again."""

    def drop_grads(self) -> None:
        """Forget gradients that will not count."""


class GradientReducer:
    """Reduces by sums; see the module's text.

    Buckets of a single module travel while backward goes on, in an order fixed by the module. With several
    modules nobody knows beforehand which of them a pass will reach on which rank; they are reduced at its
    end, after the ranks have told each other.

    Args:
        events: Hears of failures.
    """

    def __init__(self, events: ReducerEvents) -> None:
        self._events = events
        self._parts: list[ModuleGradients] = []
        self._sidecar: Sidecar | None = None
        self._micro: MicroBatch | None = None
        self._group: Group | None = None
        self._mark = 0
        self._layout = 0
        self._quiet = True
        self._works: list[Work] = []
        self._launched = 0
        self._rounds = 0
        self._in_backward = False
        self.wait_s = 0.0

    def add(self, module: nn.Module) -> None:
        foreign = {p for part in self._parts for p in part.module.parameters()}
        self._parts.append(self._new_part(module, foreign))
        self._sidecar = None

    def _new_part(self, module: nn.Module, foreign: Collection[nn.Parameter]) -> ModuleGradients:
        return ModuleGradients(module, foreign, self._on_grad)

    def clear(self) -> None:
        for part in self._parts:
            part.detach()
        self._parts, self._sidecar = [], None

    def layout(self) -> int:
        if any([part.refresh() for part in self._parts]):  # noqa: C419 - every part, not only up to the first
            self._sidecar = None
        if self._sidecar is None:
            sizes = [(str(p.dtype), p.numel()) for part in self._parts for p in part.params]
            self._layout = fingerprint([len(part.params) for part in self._parts], sizes)
            self._sidecar = self._new_sidecar()
        return self._layout

    def _new_sidecar(self) -> Sidecar | None:
        if not self._parts:
            return None
        num_counts = sum(1 + len(part.params) for part in self._parts)
        return Sidecar([p.module for p in self._parts], num_counts, self._parts[0].device)

    def begin(self, micro: MicroBatch | None, group: Group | None, mark: int = 0) -> None:
        self._micro, self._group, self._mark = micro, group, mark
        self._in_backward, self._rounds = False, 0
        # With nothing to weight and nobody to reduce with, gradients stay where autograd puts them.
        self._quiet = micro is None or (not micro.several and group is not None and group.world_size == 1)
        if micro is not None and micro.first:
            for part in self._parts:
                part.begin_step()

    def renew(self) -> None:
        self._works, self._in_backward = [], False
        if self._sidecar is not None:
            self._sidecar.renew()
        for part in self._parts:
            part.renew()

    def drop_grads(self) -> None:
        for part in self._parts:
            part.drop()

    # --- during backward ---------------------------------------------------------------------

    def _on_grad(self, part: ModuleGradients, param: nn.Parameter) -> None:
        micro = self._micro
        if self._quiet or micro is None:
            return
        if not self._in_backward:
            self._start_backward(micro)
        part.stage(param, micro)
        if micro.last and self._overlaps():
            self._launch_complete(part.buckets)

    def _start_backward(self, micro: MicroBatch) -> None:
        if self._rounds and micro.several:
            raise RaytideError(
                "backward() was called twice for one batch that is split by max_local_batch or virtual_shards: "
                "add the losses and call backward() once, or raise max_local_batch"
            )
        self._in_backward = True
        self._launched = 0
        if micro.last and self._group is not None and not self._events.before_reduction():
            self._group = None
        for part in self._parts:
            part.begin_backward()
        # Runs when this backward pass is over, like DDP's; it has no public name.
        Variable._execution_engine.queue_callback(self._end_backward)

    def _overlaps(self) -> bool:
        return len(self._parts) == 1

    def _launch_complete(self, buckets: list[Bucket]) -> None:
        """Launch buckets in their fixed order, as far as they are complete."""
        while self._launched < len(buckets) and buckets[self._launched].missing == 0:
            self._launch(buckets[self._launched].flat)
            self._launched += 1

    def _launch(self, flat: Tensor) -> None:
        group = self._group
        if group is None or group.world_size == 1:
            return
        try:
            self._works.append(group.all_reduce(flat))
        except CollectiveError as error:
            self._fail(error)

    def _end_backward(self) -> None:
        micro = self._micro
        self._in_backward = False
        self._rounds += 1
        if micro is None or not micro.last:
            return
        if micro.weight == 0.0:
            self._events.restore_buffers()
        if self._overlaps():
            self._end_single(self._parts[0], micro)
        else:
            self._end_several(micro)

    def _end_single(self, part: ModuleGradients, micro: MicroBatch) -> None:
        part.stage_unseen(micro)
        for bucket in part.buckets[self._launched :]:
            self._launch(bucket.flat)
        sidecar = self._launch_sidecar(micro)
        self._wait_all()
        for _, counts in self._counted(sidecar):
            part.hand_out(counts)

    def _end_several(self, micro: MicroBatch) -> None:
        sidecar = self._launch_sidecar(micro)
        self._wait_all()
        reached = list(self._counted(sidecar))
        for part, _ in reached:
            part.stage_unseen(micro)
        self._reduce_reached([part for part, _ in reached])
        for part, counts in reached:
            if self._group is not None:
                part.hand_out(counts)

    def _reduce_reached(self, reached: Sequence[ModuleGradients]) -> None:
        for part in reached:
            self._launch_part(part)
        self._wait_all()

    def _launch_part(self, part: ModuleGradients) -> None:
        for bucket in part.buckets:
            self._launch(bucket.flat)

    # --- beside the gradients ----------------------------------------------------------------

    def _launch_sidecar(self, micro: MicroBatch) -> Sidecar:
        self.layout()
        assert self._sidecar is not None
        counts = [count for part in self._parts for count in part.counts(micro)]
        leads = self._group is not None and self._group.rank == 0
        self._sidecar.fill(self._place, counts, leads=leads)
        self._launch(self._sidecar.vector)
        return self._sidecar

    @property
    def _place(self) -> int:
        return self._mark * _MARK_ROUNDS + self._rounds

    def _counted(self, sidecar: Sidecar) -> Iterator[tuple[ModuleGradients, list[int]]]:
        """Modules that the pass reached on some rank, with the counts of their parameters; takes the buffers."""
        group = self._group
        if group is None:
            return
        mark, counts = sidecar.read()
        if mark != self._place * group.world_size:
            self._group = None
            self._events.parted()
            return
        if group.rank != 0:
            sidecar.load_buffers()
        start = 0
        for part in self._parts:
            reached, own = counts[start], counts[start + 1 : start + 1 + len(part.params)]
            start += 1 + len(part.params)
            if reached:
                yield part, own

    # --- waiting -----------------------------------------------------------------------------

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
            self._events.fail(error)
