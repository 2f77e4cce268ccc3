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
class OwnPass:
    """This replica's part in one validation pass.

    Attributes:
        num_batches: Of the whole pass.
        consumed: Numbers of the batches it evaluated.
        left: It has left the pass.
    """

    num_batches: int
    consumed: set[int] = field(default_factory=set)
    left: bool = False


@dataclass
class Journal:
    """One replica's record.

    Attributes:
        replica: Its name.
        begun: The step that began last, -1 before the first.
        calls: User collectives begun since then.
        reports: Reports made since then.
        results: User collectives completed, by key.
        own: This replica's part in validation passes.
        agreed: Everybody's progress as exchanged in the last recovery; what is split is what it leaves over.
    """

    replica: str
    begun: int = -1
    calls: int = 0
    reports: int = 0
    passes_begun: int = 0
    results: dict[Key, list[float]] = field(default_factory=dict)
    own: dict[Key, OwnPass] = field(default_factory=dict)
    agreed: dict[Key, dict[str, EvalProgress]] = field(default_factory=dict)

    def begin_step(self, step: int) -> None:
        """A step begins (again). What followed the step before last is certain on every rank."""
        self._restart(step)
        self.results = {k: v for k, v in self.results.items() if k[0] == step - 1}
        self.own = {k: v for k, v in self.own.items() if k[0] == step - 1}
        self.agreed = {k: v for k, v in self.agreed.items() if k[0] == step - 1}

    def takeover(self, begun: int) -> None:
        """This replica's state was replaced by that of a member behind step ``begun``."""
        if self.begun < begun:
            self._restart(begun)

    def _restart(self, begun: int) -> None:
        self.begun = begun
        self.calls = self.reports = self.passes_begun = 0

    # --- reports and user collectives --------------------------------------------------------

    def next_report(self) -> int:
        """The number of the report that begins."""
        self.reports += 1
        return self.reports - 1

    def next_call(self) -> Key:
        """The key of the user collective that begins."""
        self.calls += 1
        return (self.begun, self.calls - 1)

    # --- validation --------------------------------------------------------------------------

    def begin_pass(self, num_batches: int) -> Key:
        """The key of the validation pass that begins."""
        self.passes_begun += 1
        key = (self.begun, self.passes_begun - 1)
        self.own[key] = OwnPass(num_batches)
        return key

    def consumed(self, key: Key, number: int) -> None:
        """This replica evaluated batch ``number``."""
        self.own[key].consumed.add(number)

    def end_pass(self, key: Key) -> None:
        """This replica has left the pass."""
        if key in self.own:
            self.own[key].left = True

    @staticmethod
    def end_of(key: Key) -> Key:
        """The key under which the end of a pass is agreed: no user collective has it."""
        return (key[0], -1 - key[1])

    def to_do(self, key: Key, members: Sequence[str]) -> list[int]:
        """Numbers of the batches of the pass that this replica still has to evaluate."""
        own = self.own[key]
        assigned = eval_assignment(own.num_batches, self.agreed.get(key, {}), members, self.replica)
        return [number for number in assigned if number not in own.consumed]

    def lost(self, members: Sequence[str]) -> dict[Key, int]:
        """How many batches of each pass went with a lost replica after everybody else had left the pass."""
        counts = {
            key: len(lost_batches(own.num_batches, self.agreed.get(key, {}), members)) for key, own in self.own.items()
        }
        return {key: count for key, count in counts.items() if count}

    # --- exchange ----------------------------------------------------------------------------

    def encode(self) -> bytes:
        """What the other members need to know in a recovery."""
        own = {key: EvalProgress.of(part.consumed, finished=part.left) for key, part in self.own.items()}
        return pickle.dumps((self.results, own))

    def merge(self, records: Mapping[str, bytes]) -> None:
        """Take in the records of all members of a recovery, own one included."""
        self.agreed = {}
        for replica, record in records.items():
            results, own = pickle.loads(record)  # noqa: S301 - comes from a member of the same job
            for key, value in results.items():
                self.results.setdefault(key, value)
            for key, progress in own.items():
                self.agreed.setdefault(key, {})[replica] = progress
