"""A replica's vote for a step: goes out as the step begins, and is counted before anything is applied."""

from __future__ import annotations

from collections.abc import Sequence

from raytide.collective import Group, Work
from raytide.elastic.ballot import WIDTH, Ballot, Outcome
from raytide.train.frames import start_vote, vote_frame


class Vote:
    """One vote on its way.

    Args:
        group: Whose members vote.
        ballot: This replica's.
        extra: Numbers to be reduced with MAX beside it.

    Raises:
        CollectiveError: The group has failed.
    """

    def __init__(self, group: Group, ballot: Ballot, extra: Sequence[int]) -> None:
        self._frame = vote_frame(group, [*ballot.encode(), *extra])
        self._stop = WIDTH + len(extra)
        self._work: Work | None = start_vote(group, self._frame) if group.world_size > 1 else None

    def wait(self) -> tuple[Outcome, list[int]]:
        """What all have decided, and the reduced numbers.

        Raises:
            CollectiveError: The group has failed.
        """
        if self._work is not None:
            self._work.wait()
        numbers: list[int] = self._frame.tolist()
        return Outcome.decode(numbers[:WIDTH]), numbers[WIDTH : self._stop]
