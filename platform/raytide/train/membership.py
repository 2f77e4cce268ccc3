"""Where the membership protocol meets a training process: groups, threads, and the master.

The control side (:meth:`Membership.deliver`) is called from any thread at any time and never waits for
training. The loop side (:meth:`settle`, :meth:`commit`) is called from the loop's thread only.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from raytide.collective import CollectiveError, Group, GroupSpec, StoreAddress, connect
from raytide.elastic.ballot import Ballot, Outcome
from raytide.elastic.member import (
    AbortBelow,
    Action,
    Adopt,
    Connect,
    Effect,
    Exit,
    HaltNow,
    Member,
    Proceed,
    Rejoin,
    Send,
    Wait,
)
from raytide.elastic.messages import FromReplica, Save, ToReplica
from raytide.elastic.model import Cost, Generation, Position, ReplicaId

logger = logging.getLogger(__name__)

_LEASE_CHECK_S = 1.0


class LoopExit(BaseException):
    """Ends the loop's thread from inside a call point; not an error, and no user code should catch it."""


class Carrier(Protocol):
    """The state that moves when a generation begins."""

    def send(self, group: Group) -> int:
        """Send this replica's state to ranks 1.. of ``group``; returns the bytes moved."""

    def receive(self, group: Group) -> Received:
        """Receive a state into staging memory from rank 0 of ``group``."""

    def load(self, received: Received) -> None:
        """Make a received state this replica's own."""

    def gather(self, group: Group, generation: Generation) -> None:
        """Tell the members of a recovery what each has done of the validation under way."""

    def adopted(self, generation: Generation, *, moved: bool) -> None:
        """A generation begins; ``moved`` when this replica's state was replaced."""


class Received(Protocol):
    """A staged state."""

    @property
    def applied(self) -> int: ...
    @property
    def collectives(self) -> int: ...


@dataclass(frozen=True)
class Wiring:
    """How groups of this job connect.

    Attributes:
        job: Prefix of group names.
        backend: ``gloo`` or ``nccl``.
        operation_s: Limit of one collective operation; liveness is the master's business, so it is long.
        switch_s: Limit of a transfer, in which a newcomer that is ready waits for the switch: a long validation pass
            may come before it.
        connect_s: Limit of connecting one group.
        lease_s: Without a word from the master for this long, the replica gives up.
    """

    job: str
    backend: str = "gloo"
    operation_s: float = 600.0
    switch_s: float = 7200.0
    connect_s: float = 30.0
    lease_s: float = 120.0


@dataclass
class Groups:
    """The groups of one generation on this replica."""

    main: Group | None = None
    transfers: dict[int, Group] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def all(self) -> list[Group]:
        return [*([self.main] if self.main else []), *self.transfers.values()]


class Membership:
    """One replica's membership, with its groups.

    Args:
        member: The protocol's state.
        wiring: How groups connect.
        send: Gives a message to the master; must not block.
    """

    def __init__(self, member: Member, wiring: Wiring, send: Callable[[FromReplica], None]) -> None:
        self.member = member
        self.wiring = wiring
        self._send = send
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._groups: dict[int, Groups] = {}
        self._master_heard_s = time.monotonic()

    # --- control side ------------------------------------------------------------------------

    def deliver(self, message: ToReplica) -> None:
        """Take a message of the master."""
        with self._lock:
            self._master_heard_s = time.monotonic()
            effects = self.member.handle(message)
            self._changed.notify_all()
        self._run(effects)

    def master_heard(self) -> None:
        """The master answered: the lease is renewed."""
        self._master_heard_s = time.monotonic()

    @property
    def lease_expired(self) -> bool:
        return time.monotonic() - self._master_heard_s > self.wiring.lease_s

    def _run(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    self._send(message)
                case AbortBelow(number):
                    self._abort_below(number)
                case Connect(generation):
                    self._start_connecting(generation)

    def _abort_below(self, number: int) -> None:
        with self._lock:
            old = [groups for n, groups in self._groups.items() if n < number]
        for groups in old:
            groups.cancelled.set()
            for group in groups.all():
                group.abort(f"fenced by {number}")

    def _start_connecting(self, generation: Generation) -> None:
        groups = Groups()
        with self._lock:
            self._groups[generation.number] = groups
        name = f"raytide-connect-{generation.number}"
        threading.Thread(target=self._connect, args=(generation, groups), name=name, daemon=True).start()

    def _connect(self, generation: Generation, groups: Groups) -> None:
        """Connect the main group first, then transfers in order: the same order on every replica."""
        me = self.member.replica
        try:
            if me in generation.members:
                groups.main = self._open(generation, "", generation.members, groups)
            for number, transfer in generation.transfers_of(me):
                group = self._open(generation, f"/t{number}", transfer.participants(), groups)
                groups.transfers[number] = group
        except Exception as error:  # a thread's edge: a generation that cannot form must not be waited for
            if not isinstance(error, CollectiveError):
                logger.exception("connecting generation %d", generation.number)
            with self._lock:
                effects = self.member.failed(generation.number, str(error))
                self._changed.notify_all()
        else:
            with self._lock:
                effects = self.member.connected(generation.number)
                self._changed.notify_all()
        self._close_if_cancelled(groups)
        self._run(effects)

    @staticmethod
    def _close_if_cancelled(groups: Groups) -> None:
        """A group that connected while it was given up has no other owner any more."""
        if groups.cancelled.is_set():
            for group in groups.all():
                group.close()

    def _open(self, generation: Generation, suffix: str, members: tuple[ReplicaId, ...], groups: Groups) -> Group:
        host, _, port = generation.store.rpartition(":")
        spec = GroupSpec(
            name=f"{self.wiring.job}/{generation.number}{suffix}",
            rank=members.index(self.member.replica),
            world_size=len(members),
            store=StoreAddress(host, int(port)),
            backend=self.wiring.backend,
            timeout_s=self.wiring.switch_s if suffix else self.wiring.operation_s,
            connect_timeout_s=self.wiring.connect_s,
            own_control=not suffix,
        )
        return connect(spec, cancelled=groups.cancelled)

    # --- loop side ---------------------------------------------------------------------------

    def settle(self, carrier: Carrier, *, boundary: bool) -> Proceed | HaltNow | Rejoin:
        """Return when the loop may go on; adopts new generations on the way.

        Args:
            carrier: Moves the state.
            boundary: A step is about to begin (planned switches and halts happen only there).

        Raises:
            LoopExit: The replica is released, or has lost its master for longer than its lease.
        """
        while True:
            action = self._next_action(boundary)
            match action:
                case Adopt(generation):
                    self._adopt(generation, carrier)
                case Exit(reason):
                    raise LoopExit(reason)
                case Wait():
                    pass
                case Proceed() | HaltNow() | Rejoin():
                    return action

    def await_release(self) -> None:
        """Wait here until the replica is released, or a recovery brings it back.

        Raises:
            LoopExit: It is released.
        """
        while True:
            with self._lock:
                if self.member.released is not None:
                    raise LoopExit(self.member.released)
                if self.member.broken:
                    return
                self._changed.wait(_LEASE_CHECK_S)
            if self.lease_expired:
                raise LoopExit(f"no word from the master for {self.wiring.lease_s:.0f} s")

    def _next_action(self, boundary: bool) -> Action:
        with self._lock:
            action = self.member.next_action(boundary=boundary)
            if isinstance(action, Wait):
                self._changed.wait(_LEASE_CHECK_S)
        if self.lease_expired:
            return Exit(f"no word from the master for {self.wiring.lease_s:.0f} s")
        return action

    def _adopt(self, generation: Generation, carrier: Carrier) -> None:
        groups = self._groups.setdefault(generation.number, Groups())
        started_s = time.monotonic()
        try:
            sent, received = self._transfer(generation, groups, carrier)
            transfer_s = time.monotonic() - started_s
            if not generation.planned and groups.main is not None:
                carrier.gather(groups.main, generation)
        except CollectiveError as error:
            self.report_failure(generation.number, str(error))
            return
        with self._lock:
            applied = received.applied if received else self.member.applied
            collectives = received.collectives if received else self.member.collectives
            # A newcomer waits for the switch in its transfer: only what it costs the others counts.
            paused_s = time.monotonic() - started_s if self.member.active is not None else 0.0
            cost = Cost(paused_s, transfer_s if sent else 0.0, sent)
            effects = self.member.adopted(generation, applied=applied, collectives=collectives, cost=cost)
            if effects:
                if received:
                    carrier.load(received)
                self._retire(generation.number)
                carrier.adopted(generation, moved=received is not None)
        self._run(effects)

    def _transfer(self, generation: Generation, groups: Groups, carrier: Carrier) -> tuple[int, Received | None]:
        sent, received = 0, None
        for number, transfer in generation.transfers_of(self.member.replica):
            if transfer.source == self.member.replica:
                sent += carrier.send(groups.transfers[number]) * len(transfer.targets)
            else:
                received = carrier.receive(groups.transfers[number])
        return sent, received

    def _retire(self, number: int) -> None:
        """Close everything older than ``number``, and the transfers just done."""
        for old in [n for n in self._groups if n < number]:
            for group in self._groups.pop(old).all():
                group.close()
        for group in self._groups[number].transfers.values():
            group.close()
        self._groups[number].transfers = {}

    @property
    def group(self) -> Group:
        """The group of the active generation."""
        active = self.member.active
        assert active is not None, "not a member"
        group = self._groups[active.number].main
        assert group is not None
        return group

    @property
    def waiting(self) -> bool:
        """Whether the loop is waiting for peers in a collective."""
        active = self.member.active
        groups = self._groups.get(active.number) if active is not None else None
        if groups is None or groups.main is None:
            return False
        return groups.main.waiting_for is not None or groups.main.control.waiting_for is not None

    @property
    def healthy(self) -> bool:
        """A member of a generation that has not failed."""
        return self.member.active is not None and not self.member.broken and not self.member.lingering

    def commit(self, apply: Callable[[], object], pause_s: float) -> bool:
        """Apply a step, atomically with respect to fences; False (nothing done) when fenced or failed."""
        with self._lock:
            if not self.healthy:
                return False
            apply()
            effects = self.member.applied_step(pause_s)
        self._run(effects)
        return True

    def report_failure(self, number: int, cause: str) -> None:
        """An operation of generation ``number`` failed here."""
        with self._lock:
            effects = self.member.failed(number, cause)
        logger.info("generation %d failed: %s", number, cause)
        self._run(effects)

    def ballot(self, place: int, depth: int, *, stop: bool) -> Ballot:
        """This replica's vote for the step that begins."""
        with self._lock:
            return self.member.ballot(place, depth, stop=stop)

    def decide(self, outcome: Outcome) -> None:
        """Take the outcome of the vote of the step in flight."""
        with self._lock:
            self.member.decide(outcome)

    def park(self) -> None:
        """The loop stands where it can become a member."""
        with self._lock:
            effects = self.member.park()
        self._run(effects)

    def take_saves(self) -> Sequence[Save]:
        """Checkpoints asked for."""
        with self._lock:
            return self.member.take_saves()

    def halted(self, position: Position, path: str = "") -> None:
        """The loop stands where it was told to halt; rank 0 has written ``path``."""
        with self._lock:
            effects = self.member.halted(position, path)
        self._run(effects)

    def finish(self) -> None:
        """The loop returned."""
        with self._lock:
            effects = self.member.finish()
        self._run(effects)

    def generation_at(self, step: int) -> Generation | None:
        """Whose split of the data holds for ``step``, as far as agreed."""
        with self._lock:
            switch_at, pending = self.member.switch_at, self.member.pending
            if pending is not None and switch_at is not None and step >= switch_at:
                return pending
            return self.member.active

    def close(self) -> None:
        """Abort and close every group."""
        self._abort_below(1 << 62)
        with self._lock:
            for groups in self._groups.values():
                for group in groups.all():
                    group.close()
            self._groups.clear()
