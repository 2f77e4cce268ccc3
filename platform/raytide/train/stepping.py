"""One step of a job on one replica: what counts, when it is certain, and how it is taken back."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from raytide.collective import CollectiveError, ReduceOp, Work
from raytide.elastic.ballot import WIDTH, Outcome, fingerprint
from raytide.elastic.model import Generation, Position
from raytide.train.membership import Membership
from raytide.train.reducer import GradientReducer, MicroBatch
from raytide.train.registry import Registry
from raytide.train.rollback import BoundarySnapshot, OptimizerUndo
from raytide.train.seeding import seed_step


class Mode(Enum):
    """What the loop's calls mean right now."""

    OUTSIDE = "outside"  # not between two boundaries: plain PyTorch
    INERT = "inert"  # rehearsal, or running on to where one can join: nothing counts
    MICRO = "micro"  # a micro-batch that is not the last of its step: gradients add up
    LAST = "last"  # the last (or only) micro-batch: step() acts


class StepEngine:
    """Carries the steps of one replica.

    Args:
        membership: Tells what may be committed.
        registry: The job's state.
        next_switch: Position of the boundary so many steps after the step in flight.
    """

    def __init__(
        self, membership: Membership, registry: Registry, next_switch: Callable[[Position, int], Position]
    ) -> None:
        self.position = Position()
        self.mode = Mode.OUTSIDE
        self.reducers: list[GradientReducer] = []
        self.outcome: Outcome | None = None
        self.stop_requested = False
        self.stopped = False
        self.busy_s: deque[float] = deque(maxlen=32)
        self.steps_measured = 0
        self.on_commit: Callable[[Position, Position], None] = lambda before, after: None
        self.on_diverged: Callable[[], None] = lambda: None
        self._membership = membership
        self._registry = registry
        self._next_switch = next_switch
        self._generation: Generation | None = None
        self._after = Position()
        self._in_step = False
        self._committed = False
        self._failed = False
        self._snapshot: BoundarySnapshot | None = None
        self._undo: list[OptimizerUndo] = []
        self._ballot: Tensor | None = None
        self._ballot_work: Work | None = None
        self._durations_s: deque[float] = deque(maxlen=16)
        self._samples: deque[int] = deque(maxlen=16)
        self._usual_step_s = 0.0
        self._last_commit_s = 0.0
        self._steady = False
        self._waited_s = 0.0
        self._step_started_s = 0.0

    # --- a step, from its boundary to the next -----------------------------------------------

    def begin(self, generation: Generation, after: Position, *, seed: int, depth: int, extra: list[int]) -> None:
        """A step begins at :attr:`position`; its vote goes out beside forward and backward.

        Args:
            generation: The membership that runs it.
            after: The boundary behind it.
            seed: Of the random numbers drawn in it.
            depth: Steps the loader runs ahead.
            extra: Numbers to be reduced with MAX beside the vote.
        """
        assert not self._in_step
        self._generation, self._after = generation, after
        self._in_step, self._committed, self._failed = True, False, False
        self._snapshot = BoundarySnapshot(self._registry)
        self._waited_s = self._reducers_waited_s()
        self._step_started_s = time.perf_counter()
        self.outcome = None
        seed_step(seed, self.position.step, self._membership.group.rank)
        place = _place(self.position, after)
        ballot = self._membership.ballot(place, depth, stop=self.stop_requested)
        self._ballot = torch.tensor(ballot.encode() + extra, dtype=torch.int64)
        self._launch_ballot(self._ballot)

    def set_after(self, after: Position) -> None:
        """The size of the step in flight became known."""
        self._after = after

    def _launch_ballot(self, ballot: Tensor) -> None:
        group = self._membership.group
        self._ballot_work = None
        if group.world_size == 1:
            return
        try:
            self._ballot_work = group.control.all_reduce(ballot, ReduceOp.MAX)
        except CollectiveError as error:
            self.fail(error)

    def begin_micro(self, micro: MicroBatch) -> None:
        """The loop gets a (micro-)batch of this step."""
        self.mode = Mode.LAST if micro.last else Mode.MICRO
        group = None if self._failed else self._membership.group
        for reducer in self.reducers:
            reducer.begin(None if group is None else micro, group)

    def begin_inert(self) -> None:
        """The loop gets a batch that will not count."""
        self.mode = Mode.INERT
        for reducer in self.reducers:
            reducer.begin(None, None)

    def end_batches(self) -> None:
        """No batch is being worked on: gradients and ``step()`` are the loop's own business."""
        if self.mode is not Mode.INERT:
            self.mode = Mode.OUTSIDE
        for reducer in self.reducers:
            reducer.begin(None, None)

    def leave_inert(self) -> None:
        """This replica is a member now: what the loop does counts again."""
        if self.mode is Mode.INERT:
            self.mode = Mode.OUTSIDE

    def vote(self) -> list[int]:
        """Wait for the vote of this step; returns the reduced extra numbers (empty after a failure)."""
        ballot, work = self._ballot, self._ballot_work
        self._ballot_work = None
        if work is not None:
            try:
                work.wait()
            except CollectiveError as error:
                self.fail(error)
        if self._failed or ballot is None:
            return []
        numbers: list[int] = ballot.tolist()
        if self.outcome is None:
            self.outcome = Outcome.decode(numbers[:WIDTH])
            self._take(self.outcome)
        return numbers[WIDTH:]

    def _take(self, outcome: Outcome) -> None:
        if not outcome.together:
            self._failed = True
            self.on_diverged()
            return
        self.stopped = self.stopped or outcome.stop
        switch = self._next_switch(self.position, outcome.depth + 1)
        self._membership.decide(outcome, switch)

    def fail(self, error: CollectiveError) -> None:
        """An operation of this step failed: nothing of it will count, and nothing is raised into the loop."""
        self._failed = True
        generation = self._generation
        if generation is not None:
            self._membership.report_failure(generation.number, str(error))

    def finish(self) -> bool:
        """The loop reached a point behind the step; returns whether the step counts."""
        if not self._in_step:
            return True
        self.vote()
        self.end_batches()
        if not self._committed and not self._failed:
            self._commit(lambda: None)
        self._in_step = False
        if self._committed:
            self._measure()
        else:
            self.roll_back()
        self._snapshot, self._undo = None, []
        return self._committed

    def _commit(self, apply: Callable[[], object]) -> bool:
        # A commit that a fence overtook changes nothing; the next call point waits for the recovery.
        pause_s = self.pause_s()
        if not self._membership.commit(apply, pause_s):
            self._failed = True
            return False
        before, self.position = self.position, self._after
        self._committed = True
        now_s = time.perf_counter()
        if self._last_commit_s and self._steady:
            self._durations_s.append(now_s - self._last_commit_s)
            self._samples.append(self.position.cursor - before.cursor)
        self._steady = True
        self._last_commit_s = now_s
        self.on_commit(before, self.position)
        return True

    def pause_s(self) -> float:
        """Time since the last applied step beyond what a step usually takes, first step of a generation only."""
        member = self._membership.member
        if not self._last_commit_s or member.applied != member.joined_at:
            return 0.0
        return max(0.0, time.perf_counter() - self._last_commit_s - self._usual_step_s)

    @property
    def step_s(self) -> float:
        """Seconds from one applied step to the next in this generation, 0 while unknown."""
        durations_s = list(self._durations_s)
        return statistics.median(durations_s) if durations_s else 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples of the whole job per second, over the last steps of this generation."""
        durations_s, samples = list(self._durations_s), list(self._samples)
        return sum(samples) / sum(durations_s) if durations_s else 0.0

    # --- the gate of guarded calls -----------------------------------------------------------

    def acts(self) -> bool:
        """Whether ``scheduler.step()``, ``scaler.update()`` and the like have an effect now."""
        return self.mode in (Mode.OUTSIDE, Mode.LAST) and not (self._in_step and self._failed)

    def optimizer_step(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        """Run an optimizer's step if it counts."""
        if self.mode is Mode.OUTSIDE or self._committed:
            return step()
        if self.mode is not Mode.LAST:
            return None
        self.vote()
        if self._failed:
            return None
        results: list[Any] = []
        if len(self._registry.of_kind(Optimizer)) == 1:
            self._commit(lambda: results.append(step()))
        elif self._membership.healthy:
            self._undo.append(OptimizerUndo(optimizer))
            results.append(step())
        return results[0] if results else None

    # --- taking back -------------------------------------------------------------------------

    def roll_back(self) -> None:
        """Return to the boundary, if the step in flight is not certain. May be called again."""
        if self._committed or self._snapshot is None:
            return
        for undo in reversed(self._undo):
            undo.restore()
        self._undo = []
        self._snapshot.restore()

    def membership_changed(self, generation: Generation, *, moved: bool, position: Position) -> None:
        """A new generation begins at a call point.

        Args:
            generation: The new one.
            moved: This replica's state was replaced by a member's, at ``position``.
            position: Where that member stands.
        """
        self._usual_step_s = self.step_s or self._usual_step_s
        self._durations_s.clear()
        self._samples.clear()
        self._steady = False
        if not generation.planned:
            for reducer in self.reducers:
                reducer.renew()
        if moved:
            superseded = position.step > self.position.step
            self.position = position
            self._snapshot, self._undo = None, []
            self._committed = self._in_step and superseded
        self._failed = self._in_step and not self._committed
        if self._failed:
            for reducer in self.reducers:
                reducer.begin(None, None)

    @property
    def lost(self) -> bool:
        """The step in flight will not count; it is done again, or others have done it."""
        return self._in_step and self._failed

    # --- measurements ------------------------------------------------------------------------

    def _reducers_waited_s(self) -> float:
        return sum(reducer.wait_s for reducer in self.reducers)

    def _measure(self) -> None:
        waited_s = self._reducers_waited_s() - self._waited_s
        self.busy_s.append(max(0.0, time.perf_counter() - self._step_started_s - waited_s))
        self.steps_measured += 1


def _place(position: Position, after: Position) -> int:
    return fingerprint(position.step, position.epoch, position.cursor, after.cursor)
