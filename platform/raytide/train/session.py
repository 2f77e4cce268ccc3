"""A training loop's session: everything that ``raytide.train``'s functions do inside a replica.

The loop's thread calls; every call that may wait is a *call point*, where recoveries are carried out.
Planned switches happen at boundaries only, where ``batches()`` is about to begin a step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import LBFGS, Optimizer

from raytide.collective import CollectiveError
from raytide.elastic.member import HaltNow, Proceed, Rejoin
from raytide.elastic.messages import Diverged, Halted, SaveFailed
from raytide.elastic.model import Generation, Position
from raytide.errors import ConfigError, RaytideError
from raytide.train.carrier import StateCarrier
from raytide.train.checkpoint import CheckpointMeta, CheckpointStore
from raytide.train.data import IndexLoader, ShardedStream, epoch_order, eval_batches, num_eval_batches
from raytide.train.devices import to_device
from raytide.train.feed import BatchOptions, Feed, IndexFeed, Split
from raytide.train.guards import guard_methods, guard_optimizer
from raytide.train.membership import Membership
from raytide.train.reducer import GradientReducer
from raytide.train.registry import Registry
from raytide.train.saving import Saver
from raytide.train.services import Outbox, Report, SessionSpec, plain_metrics
from raytide.train.stepping import StepEngine
from raytide.train.stream_feed import StreamFeed
from raytide.train.trace import StepTrace
from raytide.train.validation import Journal, Key

_local = threading.local()


def current_session() -> Session:
    """The session of the calling thread.

    Raises:
        RaytideError: There is none.
    """
    session: Session | None = getattr(_local, "session", None)
    if session is None:
        raise RaytideError(
            "this function works inside a training loop only: pass the loop to ElasticTrainer(loop, ...).fit()"
        )
    return session


class Session:
    """One replica's run of the loop.

    Args:
        spec: Its part in the job.
        membership: Its membership.
        outbox: Where reports go.
    """

    def __init__(self, spec: SessionSpec, membership: Membership, outbox: Outbox) -> None:
        self.spec = spec
        self.membership = membership
        self.inert = not spec.initial
        self.place = "starting"
        self.total_epochs: int | None = None
        self.registry = Registry()
        self.journal = Journal(spec.replica)
        self.engine = StepEngine(membership, self.registry, self._position_ahead)
        self.engine.position = spec.position
        self.engine.on_diverged = self._diverged
        self.carrier = StateCarrier(self.registry, self.engine, self.journal, spec.device)
        self.carrier.load_initial = self._load_initial
        self.carrier.on_adopted = self._adopted
        self.carrier.extra_state = self._feed_state
        self.carrier.load_extra = self._load_feed_state
        store = CheckpointStore(spec.storage, keep=spec.keep_checkpoints) if spec.storage else None
        self._store = store
        self.saver = Saver(store, outbox.send)
        self._outbox = outbox
        self._trace = StepTrace(spec.trace_path, spec.replica) if spec.trace_path else None
        self.engine.on_commit = self._committed
        self._started_s = time.monotonic()
        self._in_epochs = False
        self._initial_loaded = False
        self._feed: Feed | None = None
        self._feed_key: tuple[int, BatchOptions] | None = None
        self._feed_extra: dict[str, Any] = {}
        self._eval_loaders: dict[tuple[int, BatchOptions], tuple[Any, IndexLoader]] = {}
        self._rehearsed = False
        self._indices: list[int] = []
        self._reports = (-1, 0)
        self._metrics: dict[str, float] = {}

    def activate(self) -> None:
        """Make this the calling thread's session."""
        _local.session = self

    def close(self) -> None:
        """End loader processes and background writes."""
        _local.session = None
        self.saver.drain()
        if self._feed is not None:
            self._feed.close()
        for _, loader in self._eval_loaders.values():
            loader.close()
        if self._trace is not None:
            self._trace.close()

    # --- prepare -----------------------------------------------------------------------------

    def prepare(self, objects: Sequence[Any]) -> None:
        """Register objects as part of the job's state and attach what makes them elastic."""
        for value in objects:
            if isinstance(value, LBFGS):
                raise ConfigError("prepare()", "LBFGS evaluates its closure inside step()", "Use another optimizer")
            if isinstance(value, nn.Module):
                value.to(self.spec.device)
            self.registry.add(value)
            if isinstance(value, nn.Module):
                self.engine.reducers.append(GradientReducer(value, self.engine.fail))
            elif isinstance(value, Optimizer):
                guard_optimizer(value, self.engine)
            else:
                guard_methods(value, self.engine)

    def _load_initial(self) -> None:
        if self._initial_loaded or self.membership.member.has_state:
            return
        self._initial_loaded = True
        if self.spec.checkpoint and self._store is not None:
            value, _ = self._store.read(self.spec.checkpoint)
            self.carrier.load_value(value, f"checkpoint {self.spec.checkpoint}")
            self.engine.position = value["position"]

    # --- membership --------------------------------------------------------------------------

    def _settle(self, *, boundary: bool) -> Proceed | HaltNow | None:
        """Be a member of a healthy generation; None when this replica runs inertly to its next chance."""
        if self.membership.member.active is None and not self.inert:
            self._park()
        action = self.membership.settle(self.carrier, boundary=boundary)
        if isinstance(action, Rejoin):
            self.inert = True
            return None
        return action

    def _park(self) -> None:
        self.place = "waiting to join"
        self.membership.park(time.monotonic() - self._started_s)

    def _join(self) -> None:
        """A newcomer stands where it can become a member, and returns as one."""
        self.engine.begin_inert()
        while True:
            self._park()
            action = self.membership.settle(self.carrier, boundary=False)
            if not isinstance(action, Rejoin):
                break
        self.inert = False
        self.engine.leave_inert()

    def _adopted(self, generation: Generation) -> None:
        self.inert = False
        self.engine.leave_inert()
        self._initial_loaded = True
        if not generation.planned and self._feed is not None:
            self._feed.drop()

    @property
    def generation(self) -> Generation | None:
        return self.membership.member.active

    @property
    def rank(self) -> int:
        """Rank in the active generation; what a newcomer will be is not known: max_replicas."""
        active = self.membership.member.active
        if active is None or self.spec.replica not in active.members:
            return 0 if self.spec.initial else self.spec.max_replicas
        return active.members.index(self.spec.replica)

    # --- epochs and batches ------------------------------------------------------------------

    def epochs(self, total: int) -> Iterator[int]:
        """The job's epochs from where it stands; a newcomer first rehearses one."""
        self._in_epochs, self.total_epochs = True, total
        if self.inert and not self._rehearsed:
            yield min(self.spec.position.epoch, max(0, total - 1))
        while True:
            if self.inert:
                self._join()
            if self.engine.position.epoch >= total or self.engine.stopped:
                break
            yield self.engine.position.epoch
            if self.inert:
                continue
            self.engine.finish()
            at = self.engine.position
            self.engine.position = Position(at.step, at.epoch + 1, 0)
            if self._feed is not None:
                self._feed.begin_epoch(self.engine.position.epoch)
        self._in_epochs = False

    def train_batches(self, dataset: Any, options: BatchOptions) -> Iterator[Any]:
        """The micro-batches of this replica, step by step, from the job's position to the end of its epoch."""
        feed = self._feed_of(dataset, options)
        feed.start()
        if self.inert and self._rehearsed:
            self._join()
        if self.inert:
            self._rehearsed = True
            self.engine.begin_inert()
            yield to_device(feed.rehearse(self.spec.position.epoch), self.spec.device)
            if self._in_epochs:
                return
            self._join()
        epoch: int | None = None
        while True:
            self.engine.finish()
            proceed = self._boundary(feed, epoch)
            if proceed is None:
                break
            epoch = self.engine.position.epoch
            yield from self._step(feed, proceed.generation)
        self.engine.end_batches()

    def _boundary(self, feed: Feed, epoch: int | None) -> Proceed | None:
        """Settle where a step may begin; None at the end of the epoch (or of this replica's part in it)."""
        while True:
            self.place = f"boundary of step {self.engine.position.step}"
            if self._pass_is_over(feed, epoch) and self.membership.member.active is not None:
                return None
            action = self._settle(boundary=True)
            if action is None:
                return None
            if isinstance(action, HaltNow):
                self._halt(action)
                continue
            if self._pass_is_over(feed, epoch):
                return None
            self._save_if_asked()
            return action

    def _pass_is_over(self, feed: Feed, epoch: int | None) -> bool:
        position = self.engine.position
        other_epoch = epoch is not None and position.epoch != epoch
        return self.engine.stopped or other_epoch or feed.ended(position)

    def _step(self, feed: Feed, generation: Generation) -> Iterator[Any]:
        engine = self.engine
        position = engine.position
        self.place = f"step {position.step} of epoch {position.epoch}"
        extra = feed.open_step(position, self._split_at)
        self.journal.begin_step(position.step)
        self._indices = []
        engine.begin(generation, feed.after(position), seed=feed.seed, depth=feed.depth, extra=extra)
        if feed.decided_by_vote:
            feed.decide(engine.vote())
            engine.set_after(feed.after(position))
        for piece in () if engine.lost else feed.pieces():
            engine.begin_micro(piece.micro)
            self._indices.extend(piece.indices)
            yield to_device(piece.content, self.spec.device)
            if engine.lost:
                break

    def _committed(self, before: Position, after: Position) -> None:
        if self._feed is not None:
            self._feed.committed()
        active = self.membership.member.active
        if self._trace is not None and active is not None:
            self._trace.write(before, after, active, self._indices)

    def _split_at(self, step: int) -> Split | None:
        generation = self.membership.generation_at(step)
        if generation is None or self.spec.replica not in generation.members:
            return None
        return generation.members.index(self.spec.replica), generation.world_size

    def _feed_of(self, dataset: Any, options: BatchOptions) -> Feed:
        key = (id(dataset), options)
        if self._feed is None or self._feed_key != key:
            if self._feed is not None:
                self._feed.close()
            self._feed = make_feed(dataset, options, self.spec)
            self._feed_key = key
            if self._feed_extra:
                self._feed.load_state(self._feed_extra)
        return self._feed

    def _feed_state(self) -> dict[str, Any]:
        return self._feed.state() if self._feed is not None else self._feed_extra

    def _load_feed_state(self, state: dict[str, Any]) -> None:
        self._feed_extra = state
        if self._feed is not None:
            self._feed.load_state(state)

    def _position_ahead(self, position: Position, steps: int) -> Position:
        """The boundary ``steps`` steps after the one at ``position``, epochs of equal length assumed."""
        feed = self._feed
        target = position.step + steps
        while feed is not None and position.step < target:
            if feed.ended(position):
                position = Position(position.step, position.epoch + 1, 0)
            position = feed.after(position)
        return position if position.step == target else Position(target, position.epoch, position.cursor)

    # --- validation --------------------------------------------------------------------------

    def eval_batches(self, dataset: Any, options: BatchOptions) -> Iterator[Any]:
        """This replica's part of a validation pass; after a failure, also its part of what was lost."""
        self.engine.finish()
        loader = self._eval_loader(dataset, options)
        size = -(-options.global_batch_size // self.spec.max_replicas)
        size = min(size, options.max_local_batch or size)
        if self.inert:
            yield from self._load_eval(loader, dataset, size, [0])
            return
        if self._settle(boundary=False) is None:
            yield from self._load_eval(loader, dataset, size, [0])
            return
        key = self.journal.begin_pass()
        yield from self._eval_pass(loader, dataset, size, key)
        self.journal.end_pass(key)

    def _eval_pass(self, loader: IndexLoader, dataset: Any, size: int, key: Key) -> Iterator[Any]:
        total = num_eval_batches(len(dataset), size)
        while True:
            action = self._settle(boundary=False)
            if not isinstance(action, Proceed):
                return
            self.place = f"validation {key[1]} after step {key[0]}"
            to_do = self.journal.to_do(key, total, action.generation.members)
            for number, content in zip(to_do, self._load_eval(loader, dataset, size, to_do), strict=True):
                yield content
                self.journal.consumed(key, number)
                if not self.membership.healthy:
                    break
            if self.membership.healthy:
                return

    def _load_eval(self, loader: IndexLoader, dataset: Any, size: int, numbers: Sequence[int]) -> Iterator[Any]:
        order = epoch_order(len(dataset), seed=0, epoch=0, shuffle=False)
        for _, content in loader.load(eval_batches(order, size, numbers, epoch=0)):
            yield to_device(content, self.spec.device)

    def _eval_loader(self, dataset: Any, options: BatchOptions) -> IndexLoader:
        key = (id(dataset), options)
        if key not in self._eval_loaders:
            # The dataset is kept with its loader: its id must not be given to another one.
            self._eval_loaders[key] = (dataset, IndexLoader(dataset, options.loader))
        return self._eval_loaders[key][1]

    # --- collectives, reports, ends ----------------------------------------------------------

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Sum ``values`` over the ranks; each completed call gives every rank the same result, failures or not."""
        mine = [float(v) for v in values]
        if self.inert or self.engine.lost:
            return mine
        key = self.journal.next_call()
        while True:
            action = self._settle(boundary=False)
            if action is None or self.engine.lost:
                return mine
            if key in self.journal.results:
                return self.journal.results[key]
            self.place = f"all_reduce {key[1]} after step {key[0]}"
            total = torch.tensor(mine, dtype=torch.float64)
            try:
                self.membership.group.control.all_reduce(total).wait()
            except CollectiveError as error:
                self._collective_failed(error)
                continue
            self.journal.results[key] = total.tolist()
            return self.journal.results[key]

    def _collective_failed(self, error: CollectiveError) -> None:
        active = self.membership.member.active
        if active is not None:
            self.membership.report_failure(active.number, str(error))

    def report(self, metrics: dict[str, Any], *, checkpoint: bool) -> None:
        """Report metrics (every rank does; rank 0's are kept) and ask for a checkpoint of this place."""
        if self.inert:
            return
        plain = plain_metrics(metrics)
        self._metrics = plain
        at = self.engine.position
        # Numbered within the step, so that ranks (and a repetition after a failure) mean the same report.
        self._reports = (at.step, self._reports[1] + 1 if self._reports[0] == at.step else 0)
        self._outbox.report(Report(at.step, at.epoch, self._reports[1], self.rank, plain))
        if checkpoint and self.rank == 0 and not self.engine.lost:
            self._save("", at)

    def _save_if_asked(self) -> None:
        due = self.spec.checkpoint_every_s and time.monotonic() - self.saver.saved_s > self.spec.checkpoint_every_s
        saves = self.membership.take_saves()
        if self.rank != 0:
            return
        for request in [save.request for save in saves] or ([""] if due else []):
            self._save(request, self.engine.position)

    def _save(self, request: str, at: Position) -> None:
        # Behind the last step of an epoch the loop has done all of it: it resumes with the next one.
        over = self._in_epochs and self._feed is not None and self._feed.ended(at)
        position = Position(at.step, at.epoch + 1, 0) if over else at
        self.saver.save(self.carrier.capture(position), position, self._meta(position), request)

    def _meta(self, position: Position) -> CheckpointMeta:
        active = self.membership.member.active
        return CheckpointMeta(
            job=self.spec.job,
            position=position,
            world_size=active.world_size if active else 1,
            metrics=self._metrics,
            extra={},
        )

    def _halt(self, halt: HaltNow) -> None:
        """All ranks stand at the same boundary: rank 0 saves; then everybody waits to be released."""
        position, path = self.engine.position, ""
        if halt.save and self.rank == 0:
            self.place = "saving"
            try:
                path = self.saver.write_now(self.carrier.capture(), self._meta(position))
            except RaytideError as error:
                self._outbox.send(SaveFailed(halt.request, str(error)))
                self.membership.await_release()
                return
        self._outbox.send(Halted(halt.request, position, path))
        self.membership.await_release()

    def _diverged(self) -> None:
        """The vote showed ranks at different places: say where this one is, and wait for the verdict."""
        active = self.membership.member.active
        self._outbox.send(Diverged(active.number if active else 0, self.engine.position, self.place))
        self.membership.await_release()

    def finish(self) -> bool:
        """The loop returned; True when it has to run again because it was rehearsing."""
        if self.inert:
            self.registry.clear()
            self.engine.reducers.clear()
            self._in_epochs, self._rehearsed = False, True
            return True
        self.engine.finish()
        self.place = "finished"
        self.saver.drain()
        self.membership.finish()
        while True:  # other ranks may still need this one's state; a release ends the wait
            self.membership.settle(self.carrier, boundary=False)


def make_feed(dataset: Any, options: BatchOptions, spec: SessionSpec) -> Feed:
    """The feed for a dataset: by index, or of a stream of shards."""
    if isinstance(dataset, ShardedStream):
        return StreamFeed(dataset, options)
    return IndexFeed(dataset, options, spec.max_replicas)
