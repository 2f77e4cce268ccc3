"""Validation passes and user collectives since the last boundary: what a recovery has to know of them.

Both are numbered by the step that began last, so that ranks at different places of the program, after a
failure, still mean the same pass and the same call.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raytide.train.data import EvalProgress, eval_assignment, lost_batches

Key = tuple[int, int]
"""(step that began last, number of the pass or call since then)."""


@dataclass
class Journal:
    """One replica's record.

    Attributes:
        replica: Its name.
        begun: The step that began last, -1 before the first.
        results: User collectives completed, by key.
        own: This replica's progress in validation passes.
        agreed: Everybody's progress as exchanged in the last recovery; what is split is what it leaves over.
    """

    replica: str
    begun: int = -1
    calls: int = 0
    passes_begun: int = 0
    results: dict[Key, list[float]] = field(default_factory=dict)
    own: dict[Key, EvalProgress] = field(default_factory=dict)
    agreed: dict[Key, dict[str, EvalProgress]] = field(default_factory=dict)

    def begin_step(self, step: int) -> None:
        """A step begins (again). What followed the step before last is certain on every rank."""
        self.begun, self.calls, self.passes_begun = step, 0, 0
        self.results = {k: v for k, v in self.results.items() if k[0] == step - 1}
        self.own = {k: v for k, v in self.own.items() if k[0] == step - 1}
        self.agreed = {k: v for k, v in self.agreed.items() if k[0] == step - 1}

    def takeover(self, begun: int) -> None:
        """This replica's state was replaced by that of a member behind step ``begun``."""
        if self.begun < begun:
            self.begun, self.calls, self.passes_begun = begun, 0, 0

    # --- user collectives --------------------------------------------------------------------

    def next_call(self) -> Key:
        """The key of the user collective that begins."""
        self.calls += 1
        return (self.begun, self.calls - 1)

    # --- validation --------------------------------------------------------------------------

    def begin_pass(self) -> Key:
        """The key of the validation pass that begins."""
        self.passes_begun += 1
        key = (self.begun, self.passes_begun - 1)
        self.own[key] = EvalProgress()
        return key

    def consumed(self, key: Key, number: int) -> None:
        """This replica evaluated batch ``number``."""
        self.own[key] = self.own[key].with_batch(number)

    def end_pass(self, key: Key) -> None:
        """This replica has left the pass."""
        if key in self.own:
            self.own[key] = self.own[key].at_end()

    def to_do(self, key: Key, total: int, members: Sequence[str]) -> list[int]:
        """Numbers of the batches of the pass that this replica still has to evaluate."""
        assigned = eval_assignment(total, self.agreed.get(key, {}), members, self.replica)
        done = self.own[key].numbers
        return [number for number in assigned if number not in done]

    def lost(self, key: Key, total: int, members: Sequence[str]) -> tuple[int, ...]:
        """Batches that went with a lost replica after everybody else had left the pass."""
        return lost_batches(total, self.agreed.get(key, {}), members)

    # --- exchange ----------------------------------------------------------------------------

    def encode(self) -> bytes:
        """What the other members need to know in a recovery."""
        return pickle.dumps((self.results, self.own))

    def merge(self, records: Mapping[str, bytes]) -> None:
        """Take in the records of all members of a recovery, own one included."""
        self.agreed = {}
        for replica, record in records.items():
            results, own = pickle.loads(record)  # noqa: S301 - comes from a member of the same job
            for key, value in results.items():
                self.results.setdefault(key, value)
            for key, progress in own.items():
                self.agreed.setdefault(key, {})[replica] = progress
