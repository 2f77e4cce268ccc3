"""One step of a job on one replica: what counts, when it is certain, and how it is taken back."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Any

from torch import nn
from torch.optim import Optimizer

from raytide.collective import CollectiveError
from raytide.elastic.ballot import Outcome, fingerprint
from raytide.elastic.model import Generation, Position
from raytide.errors import RaytideError
from raytide.train.calls import Counts, GuardedCalls
from raytide.train.membership import Membership
from raytide.train.pace import Pace
from raytide.train.reducer import GradientReducer, MicroBatch, Reducer
from raytide.train.registry import Registry
from raytide.train.rollback import BoundarySnapshot, ModuleUndo, OptimizerUndo
from raytide.train.seeding import seed_step
from raytide.train.voting import Vote

MAX_REPEATS = 5
"""A step that fails this often in one unchanged membership will never succeed."""


class Mode(Enum):
    """What the loop's calls mean right now."""

    OUTSIDE = "outside"  # not between two boundaries: plain PyTorch
    INERT = "inert"  # rehearsal, or running on to where one can join: nothing counts
    MICRO = "micro"  # a micro-batch that is not the last of its step: gradients add up
    LAST = "last"  # the last (or only) micro-batch: step() acts


class Fate(Enum):
    """What became of the step in flight."""

    OPEN = "open"  # nobody knows yet
    APPLIED = "applied"  # it is in this replica's state
    TAKEN = "taken"  # others applied it, and this replica received their state
    LOST = "lost"  # it does not count (as far as this replica knows): it will be done again


class StepEngine:
    """Carries the steps of one replica.

    Args:
        membership: Tells what may be committed.
        registry: The job's state.

    Attributes:
        data_wait_s: Tells how long the loop has waited for data so far.
        on_commit: Called with the boundaries before and after a step that was applied here.
        on_diverged: Called when the ranks are at different places; does not return to a healthy loop.
        stepwise: So far every step had one call of ``optimizer.step()``, which can then commit at once.
        recover: Waits until this replica is a member of a healthy generation, or none at all.
    """

    def __init__(self, membership: Membership, registry: Registry) -> None:
        self.position = Position()
        self.mode = Mode.OUTSIDE
        self.reducer: Reducer = GradientReducer(self)
        self.stop_requested = False
        self.stopped = False
        self.stepwise = True
        self.pace = Pace()
        self.on_commit: Callable[[Position, Position], None] = lambda before, after: None
        self.on_diverged: Callable[[], None] = lambda: None
        self.recover: Callable[[], object] = lambda: None
        self.data_wait_s: Callable[[], float] = lambda: 0.0
        self._membership = membership
        self._registry = registry
        self._generation: Generation | None = None
        self._after = Position()
        self._seed = 0
        self._in_step = False
        self._fate = Fate.OPEN
        self._resolved = False
        self._parted = False
        self._tainted = False
        self._snapshot: BoundarySnapshot | None = None
        self._undo: list[OptimizerUndo | ModuleUndo] = []
        self._vote: Vote | None = None
        self._vote_wait_s = 0.0
        self._extra: list[int] = []
        self._stop_voted = False
        self._calls = GuardedCalls()
        self._optimizer_calls = 0
        self._repeats = 0
        self._cause = ""

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
        self._generation, self._after, self._seed = generation, after, seed
        self._in_step, self._fate = True, Fate.OPEN
        self._resolved = self._parted = self._tainted = False
        self._calls.begin_step(self.position.step)
        self._vote, self._extra, self._stop_voted = None, [], False
        self._optimizer_calls = 0
        self._snapshot = BoundarySnapshot(self._registry)
        self.pace.step_begins(self._waited_s)
        seed_step(seed, self.position.step, self._membership.group.rank)
        place = fingerprint(self.position, after.cursor, self.reducer.layout())
        ballot = self._membership.ballot(place, depth, stop=self.stop_requested)
        try:
            self._vote = Vote(self._membership.group, ballot, extra)
        except CollectiveError as error:
            self.fail(error)

    @property
    def _waited_s(self) -> float:
        """Seconds the loop has waited for peers and for data so far."""
        return self.reducer.wait_s + self._vote_wait_s + self.data_wait_s()

    def set_after(self, after: Position) -> None:
        """The size of the step in flight became known."""
        self._after = after

    def begin_micro(self, micro: MicroBatch) -> None:
        """The loop gets a (micro-)batch of this step."""
        self.mode = Mode.LAST if micro.last else Mode.MICRO
        if micro.shard >= 0:
            seed_step(self._seed, self.position.step, micro.shard)
        if self._fate is Fate.OPEN:
            self.reducer.begin(micro, self._membership.group, self.position.step)
        else:
            self.reducer.begin(None, None)

    def begin_inert(self) -> None:
        """The loop gets a batch that will not count."""
        self.mode = Mode.INERT
        self.reducer.begin(None, None)

    def end_batches(self) -> None:
        """No batch is being worked on: gradients and ``step()`` are the loop's own business."""
        if self.mode is not Mode.INERT:
            self.mode = Mode.OUTSIDE
        self.reducer.begin(None, None)

    def leave_inert(self) -> None:
        """This replica is a member now: what the loop does counts again."""
        if self.mode is Mode.INERT:
            self.mode = Mode.OUTSIDE
            self.reducer.drop_grads()

    def vote(self) -> list[int]:
        """Wait for the vote of this step; returns the reduced extra numbers (empty after a failure)."""
        vote, self._vote = self._vote, None
        if vote is not None:
            began_s = time.perf_counter()
            try:
                outcome, self._extra = vote.wait()
            except CollectiveError as error:
                self.fail(error)
            else:
                self._take(outcome)
            self._vote_wait_s += time.perf_counter() - began_s
        return [] if self._fate in (Fate.LOST, Fate.TAKEN) else self._extra

    def _take(self, outcome: Outcome) -> None:
        if not outcome.together:
            self.parted()
            return
        self._stop_voted = outcome.stop
        self._membership.decide(outcome)

    def finish(self) -> bool:
        """The loop reached a point behind the step; returns whether the step counts."""
        if not self._in_step:
            return True
        self.vote()
        self.end_batches()
        self._announce_if_parted()
        if self._fate is Fate.OPEN:
            self._commit(lambda: None)
        self._in_step = False
        if self._fate is Fate.LOST:
            self.roll_back()
            self.reducer.drop_grads()
        elif self._fate is Fate.APPLIED:
            self.pace.step_ends(self._waited_s)
        if self._optimizer_calls > 1:
            self.stepwise = False
        self._snapshot, self._undo = None, []
        return self._fate is not Fate.LOST

    def _commit(self, apply: Callable[[], object]) -> None:
        # A commit that a fence overtook changes nothing; the next call point waits for the recovery.
        member = self._membership.member
        pause_s = self.pace.pause_s() if member.applied == member.joined_at else 0.0
        if not self._membership.commit(apply, pause_s):
            self._fate = Fate.LOST
            return
        before, self.position = self.position, self._after
        self._fate, self._repeats = Fate.APPLIED, 0
        self.stopped = self.stopped or self._stop_voted  # with the step: one that is lost is done again
        self.pace.applied(self.position.cursor - before.cursor)
        self.on_commit(before, self.position)

    # --- failures ----------------------------------------------------------------------------

    def fail(self, error: CollectiveError) -> None:
        """An operation of this step failed: nothing of it will count, and nothing is raised into the loop."""
        self._cause = str(error)
        if self._fate is Fate.OPEN:
            self._fate = Fate.LOST
        elif self._fate is Fate.APPLIED:
            self._tainted = True
        generation = self._generation
        if generation is not None:
            self._membership.report_failure(generation.number, str(error))

    def before_reduction(self) -> bool:
        """Whether the ranks agree about the step: only then their reductions are of the same sizes."""
        self.vote()
        return self._fate in (Fate.OPEN, Fate.APPLIED)

    def parted(self) -> None:
        """A reduction showed ranks at different places; said at the next call point, not inside backward."""
        self._parted = True
        if self._fate is Fate.OPEN:
            self._fate = Fate.LOST

    def restore_buffers(self) -> None:
        """Take back what a batch without samples did to the buffers."""
        if self._snapshot is not None:
            self._snapshot.restore_buffers()

    def next_shard(self, *, keep: bool) -> None:
        """A virtual shard begins that is not this replica's first."""
        if self._snapshot is not None:
            self._snapshot.next_shard(keep=keep)

    def end_shards(self) -> None:
        """The last virtual shard of this replica is done."""
        if self._snapshot is not None:
            self._snapshot.end_shards()

    def _announce_if_parted(self) -> None:
        if self._parted:
            self._parted = False
            self.on_diverged()

    def resolve(self) -> None:
        """If the step in flight failed here, wait for the recovery: others may have applied it.

        If they have, the loop goes on behind ``optimizer.step()`` with their state, as if it had acted, and
        meets them at the calls that follow. Otherwise all of them repeat the step.
        """
        self._announce_if_parted()
        if self._in_step and self._fate is Fate.LOST and not self._resolved:
            self._resolved = True
            self.recover()

    @property
    def repeats(self) -> bool:
        """The step in flight will be done again: what the loop does until then is for nothing."""
        return self._in_step and self._fate is Fate.LOST

    @property
    def undecided(self) -> bool:
        """The step in flight is neither applied nor lost yet."""
        return self._in_step and self._fate is Fate.OPEN

    @property
    def over(self) -> bool:
        """The step in flight needs no more batches."""
        return self._in_step and self._fate in (Fate.LOST, Fate.TAKEN)

    def roll_back(self) -> None:
        """Return to the boundary, if the step in flight is not certain. May be called again."""
        if self._fate in (Fate.APPLIED, Fate.TAKEN) or self._snapshot is None:
            return
        for undo in reversed(self._undo):
            undo.restore()
        self._undo = []
        self._snapshot.restore()

    @property
    def is_inert(self) -> bool:
        """Nothing the loop does counts."""
        return self.mode is Mode.INERT

    # --- guarded calls -----------------------------------------------------------------------

    def acts(self, value: Any, key: str, *, scales: bool) -> bool:
        """Whether ``scheduler.step()``, ``scaler.update()`` and the like have an effect now."""
        if self.mode in (Mode.INERT, Mode.MICRO):
            return False
        number = self._calls.count(key)
        self.resolve()
        if self.is_inert or self.repeats:
            return False
        if self._in_step and self._fate is Fate.TAKEN and scales:
            return False
        if self._calls.contains(key, number):
            return False
        if self._in_step and self._fate is Fate.OPEN and isinstance(value, nn.Module):
            self._undo.append(ModuleUndo(value))
        return True

    def optimizer_step(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        """Run an optimizer's step if it counts."""
        if self.mode is Mode.OUTSIDE:
            return step()
        if self.mode is not Mode.LAST:
            return None
        self._optimizer_calls += 1
        self.vote()
        result: Any = None
        if self._fate is Fate.OPEN:
            result = self._apply(optimizer, step)
        elif self._fate is Fate.APPLIED:
            result = self._apply_more(step)
        self.resolve()
        return result

    def _apply(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        results: list[Any] = []
        if self.stepwise and len(self._registry.of_kind(Optimizer)) == 1:
            self._commit(lambda: results.append(step()))
        elif self._membership.healthy:
            self._undo.append(OptimizerUndo(optimizer))
            results.append(step())
        else:
            self._fate = Fate.LOST
        return results[0] if results else None

    def _apply_more(self, step: Callable[[], Any]) -> Any:
        if self._tainted:
            raise RaytideError(
                f"a replica was lost in the first step ({self.position.step - 1}) that calls optimizer.step() several "
                "times: this cannot be repaired; restart the job from its checkpoint"
            )
        return step()

    # --- membership --------------------------------------------------------------------------

    def calls_contained(self) -> Counts:
        """Guarded calls that a state sent now contains."""
        return self._calls.counts()

    def membership_changed(
        self,
        generation: Generation,
        *,
        moved: bool,
        position: Position,
        contained: Counts = (-1, {}),
    ) -> None:
        """A new generation begins at a call point.

        Args:
            generation: The new one.
            moved: This replica's state was replaced by a member's, at ``position``.
            position: Where that member stands.
            contained: What :meth:`calls_contained` gave there.
        """
        self.pace.membership_changed()
        if not generation.planned:
            self.reducer.renew()
            self._count_repeats(generation, moved=moved)
        if moved:
            self._move_to(position, contained, takes_over=not generation.planned)
        if self._in_step and self._fate is Fate.OPEN:
            self._fate = Fate.LOST
        if self.over:
            self.reducer.begin(None, None)

    def _move_to(self, position: Position, contained: Counts, *, takes_over: bool) -> None:
        if self._in_step and position.step > self.position.step:
            self._fate = Fate.TAKEN
        if takes_over:
            self._calls.received(contained)
        self.position = position
        self._snapshot, self._undo, self._vote = None, [], None

    def _count_repeats(self, generation: Generation, *, moved: bool) -> None:
        known = self._generation
        same = known is not None and set(known.members) == set(generation.members)
        self._repeats = self._repeats + 1 if same and not moved and self.repeats else 0
        if self._repeats >= MAX_REPEATS:
            raise RaytideError(
                f"step {self.position.step} failed {self._repeats} times although no replica was lost: {self._cause}"
            )
