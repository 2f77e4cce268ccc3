"""Gradient reduction for the deterministic mode: one fixed sum, whoever computed its parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor, nn

from raytide.collective import CollectiveError, Group
from raytide.train.buckets import Bucket
from raytide.train.data import shares
from raytide.train.gradients import MicroBatch, ModuleGradients
from raytide.train.reducer import GradientReducer

_MARK_SHARDS = 1 << 16


class ShardGradients(ModuleGradients):
    """Gradients of one module, each virtual shard's kept apart in a row of its own."""

    def __init__(
        self,
        module: nn.Module,
        foreign: Collection[nn.Parameter],
        on_grad: Callable[[ModuleGradients, nn.Parameter], None],
    ) -> None:
        self.rows: dict[Bucket, Tensor] = {}
        self._views: list[dict[Bucket, tuple[Tensor, ...]]] = []
        self._row = 0
        super().__init__(module, foreign, on_grad)

    def refresh(self) -> bool:
        changed = super().refresh()
        if changed:
            self.rows, self._views = {}, []
        return changed

    def begin_rows(self, count: int) -> None:
        """A step begins in which every rank has up to ``count`` shards."""
        if len(self._views) != count:
            self.rows = {b: b.flat.new_zeros(count, b.flat.numel()) for b in self.buckets}
            self._views = [{b: b.split(self.rows[b][row]) for b in self.buckets} for row in range(count)]
        for rows in self.rows.values():
            rows.zero_()

    def begin_row(self, row: int) -> None:
        """The shard that belongs into ``row`` comes next."""
        self._row = row

    def stage(self, param: nn.Parameter, micro: MicroBatch) -> None:
        bucket, index = self.place[param]
        assert param.grad is not None
        if micro.weight:
            torch.mul(param.grad.detach(), micro.weight, out=self._views[self._row][bucket][index])
        self.seen.add(param)
        self.used.add(param)
        param.grad = None

    def stage_unseen(self, micro: MicroBatch) -> None:
        pass  # rows begin as zeros

    def renew(self) -> None:
        super().renew()
        self.rows, self._views = {}, []


class ShardReducer(GradientReducer):
    """Gathers the gradients of all shards on every rank and adds them up in one tree.

    Floating-point sums depend on their order, so partial sums on the ranks would depend on the world size.
    Here every rank adds the same numbers in the same order: results are equal bit for bit at any world size,
    at the price of sending each shard's gradient and keeping all of them in memory.
    """

    _row = 0
    _gathered: list[tuple[Bucket, list[Tensor]]]

    def _new_part(self, module: nn.Module, foreign: Collection[nn.Parameter]) -> ModuleGradients:
        return ShardGradients(module, foreign, self._on_grad)

    def begin(self, micro: MicroBatch | None, group: Group | None, mark: int = 0) -> None:
        super().begin(micro, group, mark)
        if micro is None or group is None:
            return
        self._quiet = False
        self._row = 0 if micro.first else self._row + 1
        for part in self._shard_parts():
            if micro.first:
                part.begin_rows(-(-micro.num_shards // group.world_size))
            part.begin_row(self._row)
        if not micro.first:
            # Each shard starts from the buffers of the boundary; those that the first one leaves count.
            self._events.next_shard(keep=micro.shard == 1)

    def _shard_parts(self) -> list[ShardGradients]:
        return [part for part in self._parts if isinstance(part, ShardGradients)]

    def _overlaps(self) -> bool:
        return False

    @property
    def _place(self) -> int:
        return super()._place * _MARK_SHARDS + (self._micro.num_shards if self._micro else 0)

    def _end_backward(self) -> None:
        if self._micro is not None and self._micro.last:
            self._events.end_shards()
        super()._end_backward()

    def _launch_part(self, part: ModuleGradients) -> None:
        group = self._group
        assert isinstance(part, ShardGradients)
        for bucket in part.buckets:
            rows = part.rows[bucket]
            if group is None or group.world_size == 1:
                self._gathered.append((bucket, [rows]))
                continue
            outputs = [torch.empty_like(rows) for _ in range(group.world_size)]
            try:
                self._works.append(group.all_gather(outputs, rows))
            except CollectiveError as error:
                self._fail(error)
                return
            self._gathered.append((bucket, outputs))

    def _reduce_reached(self, reached: Sequence[ModuleGradients]) -> None:
        self._gathered = []
        super()._reduce_reached(reached)
        micro, group = self._micro, self._group
        if micro is None or group is None:
            return
        runs = shares(0, micro.num_shards, group.world_size)
        for bucket, outputs in self._gathered:
            rows = [row for run, output in zip(runs, outputs, strict=True) for row in output[: len(run)]]
            bucket.flat.copy_(tree_sum(rows))
        self._gathered = []


def tree_sum(rows: Sequence[Tensor]) -> Tensor:
    """Add tensors pairwise, the pairs pairwise, and so on: an order that depends on their number alone."""
    while len(rows) > 1:
        pairs = [a + b for a, b in zip(rows[::2], rows[1::2], strict=False)]
        rows = [*pairs, *rows[len(pairs) * 2 :]]
    return rows[0]
