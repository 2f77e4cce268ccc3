"""The one collective that a loop may call itself, and what else ranks agree about between steps."""

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
            if at.engine.repeats or at.settle(boundary=False) is None or at.engine.repeats:
                return mine
            sums = self.attempt(key, mine, f"all_reduce {key[1]} after step {key[0]}")
            if sums is not None:
                return sums

    def attempt(self, key: Key, mine: list[float], place: str) -> list[float] | None:
        """Sum once, unless the sum is known; None after a failure, from which the caller has to recover."""
        at = self._standing
        if key in at.journal.results:
            return list(at.journal.results[key])
        at.place = place
        try:
            at.journal.results[key] = sum_over(at.membership.group, fingerprint(place), mine)
        except CollectiveError as error:
            if at.generation is not None:
                at.membership.report_failure(at.generation.number, str(error))
            return None
        except FramesParted:
            at.engine.on_diverged()
            return None
        return list(at.journal.results[key])
