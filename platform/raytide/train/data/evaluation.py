"""A validation pass shared by the members of a job, and what is left of it after a failure.

A pass has a cursor of its own: it is cut into batches, members take contiguous runs of batch numbers,
and nobody is resized on purpose while it lasts. Results (sums, counts) live in the members, so what a
dead member evaluated is lost with it and must be evaluated again by those still at work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from raytide.train.data.order import Order, take
from raytide.train.data.split import LocalBatch, Share, shares


@dataclass(frozen=True)
class EvalProgress:
    """What one member has consumed of one pass.

    Attributes:
        consumed: Batch numbers as half-open ranges, ascending and not touching: ``((0, 4), (7, 8))`` is
            0, 1, 2, 3 and 7.
        finished: The member has left the pass; it will consume nothing more.
    """

    consumed: tuple[tuple[int, int], ...] = ()
    finished: bool = False

    def __post_init__(self) -> None:
        edges = [edge for run in self.consumed for edge in run]
        if any(left >= right for left, right in pairwise([-1, *edges])):
            raise AssertionError(f"not ascending, disjoint ranges: {self.consumed}")

    @classmethod
    def of(cls, numbers: Iterable[int], *, finished: bool = False) -> EvalProgress:
        """Build the progress of a member that has consumed these batches."""
        runs: list[tuple[int, int]] = []
        for number in sorted(set(numbers)):
            if runs and runs[-1][1] == number:
                runs[-1] = (runs[-1][0], number + 1)
            else:
                runs.append((number, number + 1))
        return cls(tuple(runs), finished)

    @property
    def numbers(self) -> frozenset[int]:
        """The consumed batch numbers."""
        return frozenset(number for start, stop in self.consumed for number in range(start, stop))


def num_eval_batches(length: int, batch_size: int) -> int:
    """Return the number of batches of a pass over ``length`` samples; the last may be smaller."""
    return -(-length // batch_size)


def eval_assignment(
    num_batches: int, progress: Mapping[str, EvalProgress], members: Sequence[str], member: str
) -> tuple[int, ...]:
    """Return the numbers of the batches that ``member`` still has to evaluate, in order.

    Every batch that no one of ``members`` has consumed is given to exactly one member whose pass is not
    finished, in contiguous runs of the remaining numbers. Equal arguments give equal results, so members
    that agree on the progress need not agree on anything else.

    Args:
        num_batches: Batches of the whole pass.
        progress: What members have consumed. One without an entry has consumed nothing; entries of
            members that are gone are ignored, since their results are gone with them.
        members: Who is in, in rank order.
        member: One of them.
    """
    working = [name for name in members if not _of(progress, name).finished]
    if member not in working:
        return ()
    rest = _unconsumed(num_batches, progress, members)
    share = shares(0, len(rest), len(working))[working.index(member)]
    return tuple(rest[share.start : share.stop])


def lost_batches(num_batches: int, progress: Mapping[str, EvalProgress], members: Sequence[str]) -> tuple[int, ...]:
    """Return the batches nobody can evaluate any more: unconsumed when all of ``members`` have finished.

    The caller must then repeat the pass, or say that its result lacks these samples.
    """
    if not all(_of(progress, name).finished for name in members):
        return ()
    return tuple(_unconsumed(num_batches, progress, members))


def eval_batches(order: Order, batch_size: int, numbers: Iterable[int], *, epoch: int) -> Iterator[LocalBatch]:
    """Yield the batches with these numbers; ``step`` is the number, ``weight`` the part of all samples."""
    for number in numbers:
        share = Share(number * batch_size, min((number + 1) * batch_size, len(order)))
        indices = take(order, share.start, share.stop)
        yield LocalBatch(epoch, number, 0, 1, indices, len(indices) / len(order))


def _of(progress: Mapping[str, EvalProgress], member: str) -> EvalProgress:
    return progress.get(member, EvalProgress())


def _unconsumed(num_batches: int, progress: Mapping[str, EvalProgress], members: Sequence[str]) -> list[int]:
    consumed = frozenset[int]().union(*(_of(progress, name).numbers for name in members))
    return [number for number in range(num_batches) if number not in consumed]
