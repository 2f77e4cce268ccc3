"""A training loop's session: everything that ``raytide.train``'s functions do inside a replica.

The loop's thread calls; every call that may wait is a *call point*, where recoveries are carried out.
Planned switches happen at boundaries only, where ``batches()`` is about to begin a step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn
from torch.optim import LBFGS, Optimizer

from raytide.elastic.messages import Diverged
from raytide.elastic.model import Generation
from raytide.errors import ConfigError, RaytideError
from raytide.train.checkpoint import Checkpoint, CheckpointStore
from raytide.train.evaluating import Evaluation
from raytide.train.exchange import UserCollectives
from raytide.train.feed import BatchOptions
from raytide.train.guards import guard_methods, guard_optimizer
from raytide.train.membership import Membership
from raytide.train.saving import Saves
from raytide.train.services import Outbox, Report, SessionSpec, plain_metrics
from raytide.train.shard_reducer import ShardReducer
from raytide.train.standing import Standing
from raytide.train.stepping import Mode, StepEngine
from raytide.train.training import Training

_BEFORE_STEP = 1 << 20
"""Reports made in a step before it is applied are numbered from here: those after the step before it come first."""

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
        self.standing = Standing(spec, membership)
        self._outbox = outbox
        store = CheckpointStore(spec.storage, keep=spec.keep_checkpoints) if spec.storage else None
        self._saves = Saves(self.standing, store, outbox.send)
        self._exchange = UserCollectives(self.standing)
        self._evaluation = Evaluation(self.standing, self._exchange)
        self._training = Training(self.standing, self._saves.halt, self._saves.if_asked, self._stop_agreed)
        self._saves.resume_position = self._training.resume_position
        self._initial_loaded = False
        self._undo: list[Callable[[], None]] = []
        self._connect()

    def _connect(self) -> None:
        engine, carrier = self.standing.engine, self.standing.carrier
        if self.spec.virtual_shards:
            engine.reducer = ShardReducer(engine)
        engine.data_wait_s = self._training.data_wait_s
        engine.on_commit = self._training.committed
        engine.on_diverged = self._diverged
        carrier.load_initial = self._load_initial
        carrier.on_adopted = self._adopted
        carrier.extra_state = self._training.state
        carrier.load_extra = self._training.load_state

    def activate(self) -> None:
        """Make this the calling thread's session; it stands where the job begins.

        Raises:
            StateMismatch: There is no whole checkpoint where the job is to begin from.
        """
        _local.session = self
        if self.spec.initial and self.spec.checkpoint:
            self.standing.begin_at(Checkpoint(self.spec.checkpoint).meta.position)

    def close(self) -> None:
        """End loader processes and background writes."""
        _local.session = None
        self._saves.close()
        self._training.close()
        self._evaluation.close()

    # --- what others may look at -------------------------------------------------------------

    @property
    def engine(self) -> StepEngine:
        return self.standing.engine

    @property
    def place(self) -> str:
        """What the loop is doing, for people."""
        return self.standing.place

    @property
    def inert(self) -> bool:
        """Nothing that the loop does counts."""
        return self.standing.inert

    @property
    def generation(self) -> Generation | None:
        """The generation this replica is a member of."""
        return self.standing.generation

    @property
    def rank(self) -> int:
        """Rank in the active generation."""
        return self.standing.rank

    # --- prepare -----------------------------------------------------------------------------

    def prepare(self, objects: Sequence[Any]) -> None:
        """Register objects as part of the job's state and attach what makes them elastic."""
        for value in objects:
            _check(value)
        for value in objects:
            if isinstance(value, nn.Module):
                value.to(self.spec.device)
            name = self.standing.registry.add(value)
            if isinstance(value, nn.Module):
                self.engine.reducer.add(value)
            if isinstance(value, Optimizer):
                self._undo.append(guard_optimizer(value, self.engine))
            else:
                self._undo.append(guard_methods(value, name, self.engine))

    def _load_initial(self) -> None:
        """Once, in the first member: all others, and whoever joins later, receive its state."""
        if not self._initial_loaded and self.spec.checkpoint:
            self._initial_loaded = True
            value = Checkpoint(self.spec.checkpoint).load()
            self.standing.carrier.load_value(value, f"checkpoint {self.spec.checkpoint}")

    # --- membership --------------------------------------------------------------------------

    def _adopted(self, generation: Generation) -> None:
        self._initial_loaded = True
        self.standing.adopted()
        self._training.adopted(generation)
        if not generation.planned:
            self._evaluation.tell_lost()

    def _diverged(self) -> None:
        """The ranks are at different places: say where this one is, and wait for the verdict."""
        active = self.generation
        self._outbox.send(Diverged(active.number if active else 0, self.engine.position, self.place))
        self.standing.membership.await_release()

    def _stop_agreed(self) -> bool:
        return self._exchange.all_reduce([float(self.engine.stop_requested)])[0] > 0

    # --- the loop's calls --------------------------------------------------------------------

    def epochs(self, total: int) -> Iterator[int]:
        """The job's epochs from where it stands."""
        return self._training.epochs(total)

    def train_batches(self, dataset: Any, options: BatchOptions) -> Iterator[Any]:
        """This replica's batches of a training pass."""
        return self._training.batches(dataset, options)

    def eval_batches(self, dataset: Any, options: BatchOptions) -> Iterator[Any]:
        """This replica's batches of a validation pass."""
        return self._evaluation.batches(dataset, options)

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Sum numbers over all ranks."""
        return self._exchange.all_reduce(values)

    def report(self, metrics: dict[str, Any], *, checkpoint: bool) -> None:
        """Report metrics (every rank does; rank 0's are kept) and ask for a checkpoint of this place."""
        self.engine.resolve()
        if self.inert or self.engine.repeats:
            return
        plain = plain_metrics(metrics)
        self._saves.metrics = plain
        at, journal = self.engine.position, self.standing.journal
        # Numbered by the program, so that ranks (and a repetition after a failure) mean the same report.
        number = journal.next_report() + (_BEFORE_STEP if at.step == journal.begun else 0)
        self._outbox.report(Report(at.step, at.epoch, number, self.rank, plain))
        if checkpoint and self.engine.undecided:
            self._saves.at_next_boundary()
        elif checkpoint:
            self._saves.here()

    @property
    def ends_step(self) -> bool:
        """Whether the batch at hand is the last of its step."""
        return self.engine.mode is not Mode.MICRO

    def finish(self) -> bool:
        """The loop returned; True when it has to run again because it was rehearsing."""
        self.engine.resolve()
        if self.inert:
            self._start_over()
            return True
        self.engine.finish()
        self._saves.finish()
        self.standing.place = "finished"
        self.standing.membership.finish()
        while True:  # other ranks may still need this one's state; a release ends the wait
            self.standing.settle(boundary=False)

    def _start_over(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo = []
        self.standing.registry.clear()
        self.engine.reducer.clear()
        self._training.restart()
        self.standing.rehearsed = True


def _check(value: Any) -> None:
    if isinstance(value, LBFGS):
        raise ConfigError(
            "prepare()", "LBFGS calls its closure several times inside step()", "Use an optimizer of first order"
        )
    if isinstance(value, nn.Module):
        for name, part in value.named_modules():
            if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse:
                raise ConfigError(
                    "prepare()", f"{name or 'the module'} has sparse gradients", "Make it with sparse=False"
                )
