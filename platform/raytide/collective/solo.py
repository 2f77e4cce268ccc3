"""The group of one member: every operation is the identity, nothing is sent, nothing can fail."""

from __future__ import annotations

from torch import Tensor

from raytide.collective.spec import ReduceOp
from raytide.collective.transport import Finished, Handle


class SoloTransport:
    """Copies only where an output is another tensor than the input."""

    def refusal(self, _tensor: Tensor) -> str:
        return ""

    def all_reduce(self, _tensor: Tensor, _op: ReduceOp, _limit_s: float) -> Handle:
        return Finished()

    def broadcast(self, _tensor: Tensor, _root: int, _limit_s: float) -> Handle:
        return Finished()

    def reduce_scatter(self, output: Tensor, inputs: list[Tensor], _op: ReduceOp, _limit_s: float) -> Handle:
        return self._copy(output, inputs[0])

    def all_gather(self, outputs: list[Tensor], tensor: Tensor, _limit_s: float) -> Handle:
        return self._copy(outputs[0], tensor)

    def abandon(self) -> None:
        pass

    def release(self) -> None:
        pass

    @staticmethod
    def _copy(target: Tensor, source: Tensor) -> Handle:
        if target.data_ptr() != source.data_ptr():
            target.copy_(source)
        return Finished()
