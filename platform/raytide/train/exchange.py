"""The one collective that a loop may call itself."""

from __future__ import annotations

from collections.abc import Sequence

from raytide.collective import CollectiveError
from raytide.elastic.ballot import fingerprint
from raytide.train.frames import FramesParted, sum_over
from raytide.train.standing import Standing
from raytide.train.validation import Key


class UserCollectives:
    """Sums numbers over the ranks.

    Args:
        standing: Where this replica stands.
    """

    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Sum ``values`` over the ranks; each completed call gives every rank the same result, failures or not."""
        at = self._standing
        mine = [float(v) for v in values]
        at.refuse_within_step("all_reduce()")
        if at.inert:
            return mine
        key = at.journal.next_call()
        while True:
            at.engine.resolve()
            if at.inert or at.engine.repeats or at.settle(boundary=False) is None or at.engine.repeats:
                return mine
            if key not in at.journal.results:
                self._try(mine, key)
            if key in at.journal.results:
                return list(at.journal.results[key])

    def _try(self, mine: list[float], key: Key) -> None:
        at = self._standing
        at.place = f"all_reduce {key[1]} after step {key[0]}"
        try:
            at.journal.results[key] = sum_over(at.membership.group, fingerprint("all_reduce", key), mine)
        except CollectiveError as error:
            if at.generation is not None:
                at.membership.report_failure(at.generation.number, str(error))
        except FramesParted:
            at.engine.on_diverged()
