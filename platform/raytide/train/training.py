"""Training passes: epochs, steps, and the batches of this replica."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from raytide.elastic.member import HaltNow, Proceed
from raytide.elastic.model import Generation, Position
from raytide.errors import ConfigError, RaytideError
from raytide.train.data import ShardedStream
from raytide.train.devices import to_device
from raytide.train.feed import BatchOptions, Feed, IndexFeed, Split
from raytide.train.services import SessionSpec
from raytide.train.shard_feed import ShardFeed
from raytide.train.standing import Standing
from raytide.train.stream_feed import StreamFeed
from raytide.train.trace import StepTrace


class Training:
    """The training passes of one replica.

    Args:
        standing: Where it stands.
        halt: Carries out a halt at a boundary.
        at_boundary: Called at every boundary where a step is about to begin.
        stop_agreed: Asks all ranks whether one of them wants to stop.
    """

    def __init__(
        self,
        standing: Standing,
        halt: Callable[[HaltNow], None],
        at_boundary: Callable[[], None],
        stop_agreed: Callable[[], bool],
    ) -> None:
        self._standing = standing
        self._engine = standing.engine
        self._halt = halt
        self._at_boundary = at_boundary
        self._stop_agreed = stop_agreed
        self._in_epochs = False
        self._passed: int | None = None
        self._feed: Feed | None = None
        self._feed_key: tuple[int, BatchOptions] | None = None
        self._feed_state: dict[str, Any] = {}
        self._indices: list[int] = []
        spec = standing.spec
        self._trace = StepTrace(spec.trace_path, spec.replica) if spec.trace_path else None

    # --- epochs ------------------------------------------------------------------------------

    def epochs(self, total: int) -> Iterator[int]:
        """The job's epochs from where it stands; a newcomer first rehearses one."""
        at, engine = self._standing, self._engine
        self._in_epochs = True
        if at.inert and not at.rehearsed:
            yield min(at.spec.position.epoch, max(0, total - 1))
        elif not at.inert:
            at.settle(boundary=False)  # the state of a checkpoint is there, even if no epoch is left
        while True:
            if at.inert:
                at.join()
            epoch = engine.position.epoch
            if epoch >= total or engine.stopped:
                break
            yield epoch
            self._end_epoch(epoch)
        self._in_epochs = False

    def _end_epoch(self, epoch: int) -> None:
        at, engine = self._standing, self._engine
        at.refuse_within_step("a break out of batches()")
        engine.resolve()
        # After a `break` in a step that was lost, the epoch is entered again where the step is to be repeated.
        if at.inert or not engine.finish():
            return
        # State received meanwhile may stand in the next epoch already.
        if engine.position.epoch == epoch:
            self._next_epoch()
        engine.stopped = engine.stopped or self._stop_agreed()

    def _next_epoch(self) -> None:
        at = self._engine.position
        self._engine.position = Position(at.step, at.epoch + 1, 0)
        if self._feed is not None:
            self._feed.begin_epoch(at.epoch + 1)

    def resume_position(self, at: Position) -> Position:
        """Where a job saved at ``at`` goes on: behind the last step of an epoch, with the next one."""
        over = self._in_epochs and self._feed is not None and self._feed.ended(at)
        return Position(at.step, at.epoch + 1, 0) if over else at

    def restart(self) -> None:
        """The loop runs again from its top."""
        self._in_epochs, self._passed = False, None

    # --- a pass ------------------------------------------------------------------------------

    def batches(self, dataset: Any, options: BatchOptions) -> Iterator[Any]:
        """The micro-batches of this replica, step by step, from the job's position to the end of its epoch."""
        at, engine = self._standing, self._engine
        feed = self._feed_of(dataset, options)
        feed.start()
        if at.inert and not at.rehearsed:
            at.rehearsed = True
            engine.begin_inert()
            yield to_device(feed.rehearse(at.spec.position.epoch), at.spec.device)
            if self._in_epochs:
                return
        if at.inert:
            at.join()
        engine.finish()
        self._begin_pass(feed)
        epoch: int | None = None
        while True:
            engine.finish()
            proceed = self._boundary(feed, epoch)
            if proceed is None:
                break
            epoch = engine.position.epoch
            yield from self._step(feed, proceed.generation)
        engine.end_batches()
        if epoch is not None and not at.inert:
            self._passed = epoch

    def _begin_pass(self, feed: Feed) -> None:
        """Without ``epochs()`` every pass is an epoch; with it there is one pass in each."""
        position = self._engine.position
        if self._in_epochs and self._passed == position.epoch:
            raise RaytideError(
                f"a second training batches() in epoch {position.epoch}: there is one in each epoch, from which the "
                "job knows where it stands. Pass train=False for validation, or make one dataset of the two"
            )
        if not self._in_epochs and not self._engine.stopped and feed.ended(position):
            self._next_epoch()

    def _boundary(self, feed: Feed, epoch: int | None) -> Proceed | None:
        """Settle where a step may begin; None at the end of the epoch (or of this replica's part in it)."""
        at = self._standing
        while True:
            at.place = f"boundary of step {self._engine.position.step}"
            if self._is_over(feed, epoch) and at.generation is not None:
                return None
            action = at.settle(boundary=True)
            if action is None:
                return None
            if isinstance(action, HaltNow):
                self._halt(action)
                continue
            if self._is_over(feed, epoch):
                return None
            self._at_boundary()
            return action

    def _is_over(self, feed: Feed, epoch: int | None) -> bool:
        position = self._engine.position
        other_epoch = epoch is not None and position.epoch != epoch
        return self._engine.stopped or other_epoch or feed.ended(position)

    def _step(self, feed: Feed, generation: Generation) -> Iterator[Any]:
        at, engine = self._standing, self._engine
        position = engine.position
        at.place = f"step {position.step} of epoch {position.epoch}"
        extra = feed.open_step(position, self._split_at)
        at.journal.begin_step(position.step)
        self._indices = []
        engine.begin(generation, feed.after(position), seed=feed.seed, depth=feed.depth, extra=extra)
        if feed.decided_by_vote:
            feed.decide(engine.vote())
            engine.set_after(feed.after(position))
        for piece in () if engine.over else feed.pieces():
            engine.begin_micro(piece.micro)
            self._indices.extend(piece.indices)
            yield to_device(piece.content, at.spec.device)
            if engine.over or engine.position != position:
                break

    def committed(self, before: Position, after: Position) -> None:
        """A step was applied here."""
        if self._feed is not None:
            self._feed.committed()
        active = self._standing.generation
        if self._trace is not None and active is not None:
            self._trace.write(before, after, active, self._indices)

    def adopted(self, generation: Generation) -> None:
        """A generation begins."""
        if not generation.planned and self._feed is not None:
            self._feed.drop()

    # --- the feed ----------------------------------------------------------------------------

    def _split_at(self, step: int) -> Split | None:
        at = self._standing
        generation = at.membership.generation_at(step)
        if generation is None or at.spec.replica not in generation.members:
            return None
        return generation.members.index(at.spec.replica), generation.world_size

    def _feed_of(self, dataset: Any, options: BatchOptions) -> Feed:
        key = (id(dataset), options)
        if self._feed is None or self._feed_key != key:
            if self._feed is not None:
                self._feed_state = self._feed.state()  # the same stream, made anew by the loop, goes on where it was
                self._feed.close()
            self._feed = make_feed(dataset, options, self._standing.spec)
            self._feed_key = key
            if self._feed_state:
                self._feed.load_state(self._feed_state)
        return self._feed

    def state(self) -> dict[str, Any]:
        """What of the feed belongs to the job's state."""
        return self._feed.state() if self._feed is not None else self._feed_state

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state`."""
        self._feed_state = state
        if self._feed is not None:
            self._feed.load_state(state)

    def data_wait_s(self) -> float:
        """Seconds the loop has waited for data."""
        return self._feed.wait_s if self._feed is not None else 0.0

    def close(self) -> None:
        """End loader processes and files."""
        if self._feed is not None:
            self._feed.close()
        if self._trace is not None:
            self._trace.close()


def make_feed(dataset: Any, options: BatchOptions, spec: SessionSpec) -> Feed:
    """The feed for a dataset: by index, of a stream of shards, or by virtual shards."""
    if not isinstance(dataset, ShardedStream):
        return (
            ShardFeed(dataset, options, spec) if spec.virtual_shards else IndexFeed(dataset, options, spec.max_replicas)
        )
    if spec.virtual_shards:
        raise ConfigError(
            "ScalingConfig.virtual_shards",
            "which samples of a stream make up a step depends on the replica count",
            "Use a dataset with an index, or virtual_shards=0",
        )
    return StreamFeed(dataset, options)
