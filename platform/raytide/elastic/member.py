"""One replica's side of the membership protocol, as a pure state machine.

Two callers share a :class:`Member` under one lock (the session's): control messages arrive at any
time and yield *effects*; the training loop asks at its call points what to do next and is told by
an *action*. Nothing here blocks, reads a clock or talks to anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raytide.elastic.ballot import Ballot, Outcome
from raytide.elastic.messages import (
    AskStatus,
    Committed,
    Connected,
    Demote,
    Fence,
    Finished,
    FromReplica,
    GenerationFailed,
    Halt,
    Halted,
    Publish,
    Ready,
    Release,
    Save,
    Status,
    Switched,
    ToReplica,
)
from raytide.elastic.model import Cost, Generation, Position, ReplicaId

# --- effects: what the owner of a Member must do after a control message --------------------


@dataclass(frozen=True)
class Connect:
    """Connect to the generation's group in the background; then call :meth:`Member.connected`."""

    generation: Generation


@dataclass(frozen=True)
class AbortBelow:
    """Abort every group, live or being connected, of a generation below ``number``."""

    number: int


@dataclass(frozen=True)
class Send:
    """Send a message to the master."""

    message: FromReplica


Effect = Connect | AbortBelow | Send

# --- actions: what the loop must do at a call point ------------------------------------------


@dataclass(frozen=True)
class Proceed:
    """Go on in ``generation``."""

    generation: Generation


@dataclass(frozen=True)
class Wait:
    """Nothing to do before a message arrives; ``reason`` is for humans."""

    reason: str


@dataclass(frozen=True)
class Adopt:
    """Carry out the transfers of ``generation``, then call :meth:`Member.adopted` (or ``failed``)."""

    generation: Generation


@dataclass(frozen=True)
class HaltNow:
    """Everybody stops here; rank 0 writes the state first if ``save``; then call :meth:`Member.halted`."""

    request: str
    save: bool


@dataclass(frozen=True)
class Rejoin:
    """Not a member here: run on without effect to the next place where one can become a member."""


@dataclass(frozen=True)
class Exit:
    """Leave: the job goes on (or ended) without this replica."""

    reason: str


Action = Proceed | Wait | Adopt | HaltNow | Rejoin | Exit


class Member:
    """Membership of one replica.

    Args:
        replica: Its name.
        has_state: True for the first replica of a job, whose initial (or loaded) state is the job's.
        applied: Steps already in that state.
    """

    def __init__(self, replica: ReplicaId, *, has_state: bool, applied: int = 0) -> None:
        self.replica = replica
        self.applied = applied
        self.has_state = has_state
        self.active: Generation | None = None
        self.joined_at = 0
        self.broken = False
        self.pending: Generation | None = None
        self.pending_connected = False
        self.switch_at: int | None = None
        self.fence = 0
        self.parked = False
        self.lingering = False
        self.finished = False
        self.halt: Halt | None = None
        self.halt_at: int | None = None
        self.stopped = False
        self.saves: list[Save] = []
        self.released: str | None = None
        self.collectives = 0
        self._newest = 0
        self._left_for = 0
        self._committed_told = True
        self._halted_told: Halted | None = None

    # --- control side ------------------------------------------------------------------------

    def handle(self, message: ToReplica) -> list[Effect]:
        """Take one message of the master; old generations are refused silently."""
        match message:
            case Publish(generation):
                return self._published(generation)
            case Fence(number):
                return self._fenced(number)
            case Demote(number):
                self._demoted(number)
            case Halt():
                return self._halt(message)
            case Save():
                if message not in self.saves:
                    self.saves.append(message)
            case Release(reason):
                self.released = reason
                return [AbortBelow(self._highest() + 1)]
            case AskStatus():
                return [Send(self.status())]
        return []

    def _highest(self) -> int:
        return max(
            self.fence,
            self.active.number if self.active else 0,
            self.pending.number if self.pending else 0,
        )

    def _published(self, generation: Generation) -> list[Effect]:
        if generation.number < self.fence or generation.number <= self._newest:
            return []
        takes_part = self.replica in generation.participants()
        if not takes_part and self.active is None:
            return []
        self._newest = generation.number
        self.pending = generation
        self.pending_connected = False
        self.switch_at = None
        # One who leaves and hands nothing over has nobody to connect to, yet votes on when to go.
        return [Connect(generation)] if takes_part else self.connected(generation.number)

    def connected(self, number: int) -> list[Effect]:
        """The background connection to generation ``number`` stands."""
        if self.pending is None or self.pending.number != number:
            return []
        self.pending_connected = True
        return [Send(Connected(number))]

    def _fenced(self, number: int) -> list[Effect]:
        if number <= self.fence:
            return [Send(self.status())] if number == self.fence else []
        if self.active is not None and number <= self.active.number:
            return []
        self.fence = number
        if self.pending is not None and self.pending.number < number:
            self.pending = None
            self.pending_connected = False
        self._forget_plans()
        self.broken = self.active is not None
        return [AbortBelow(number), Send(self.status())]

    def _forget_plans(self) -> None:
        """What was planned in a generation ends with it; the master repeats what is still wanted."""
        self.switch_at = None
        self.halt = self.halt_at = self._halted_told = None
        self.stopped = False

    def _halt(self, message: Halt) -> list[Effect]:
        if self.active is None or self.broken or message.generation != self.active.number:
            return []
        if self.stopped and self._halted_told is not None and self._halted_told.request == message.request:
            return [Send(self._halted_told)]  # a restarted master has not heard it
        self.halt = message
        return []

    def _demoted(self, number: int) -> None:
        if number < self.fence or (self.active is not None and self.active.number >= number):
            return
        self.active, self.broken, self.lingering = None, False, False
        self.has_state = False
        self._forget_plans()

    def status(self) -> Status:
        """Where this replica stands."""
        return Status(
            fence=self.fence,
            active=self.active.number if self.active else 0,
            joined_at=self.joined_at,
            applied=self.applied,
            has_state=self.has_state,
            broken=self.broken,
            pending=self.pending.number if self.pending and self.pending_connected else 0,
            ready=self.parked,
            finished=self.finished,
            collectives=self.collectives,
            left_for=self._left_for if self.lingering else 0,
        )

    # --- loop side ---------------------------------------------------------------------------

    def next_action(self, *, boundary: bool) -> Action:
        """What the loop does at a call point.

        Args:
            boundary: True where a step is about to begin: only there planned switches and halts
                happen. Recovery happens at every call point.
        """
        if self.released is not None:
            return Exit(self.released)
        pending = self.pending if self.pending_connected else None
        if pending is not None and self._adopts_at_once(pending):
            return Adopt(pending)
        if self.active is None:
            return Wait("waiting to become a member") if self.parked else Rejoin()
        if self.lingering:
            return Wait("left; staying until the next generation has committed a step")
        if self.broken:
            return Wait(f"generation {self.active.number} failed; waiting for the next one")
        if self.finished:
            return Wait("the loop has returned; waiting for the other ranks")
        if self.stopped:
            return Wait("halted; waiting for the master")
        return self._at_boundary(self.active, pending) if boundary else Proceed(self.active)

    def _at_boundary(self, active: Generation, pending: Generation | None) -> Action:
        # Without steps there are no ballots, and no need of them: everybody waits at this boundary.
        paused = active.paused
        if pending is not None and (paused or self.switch_at == self.applied):
            return Adopt(pending)
        if self.halt is not None and (paused or self.halt_at == self.applied):
            return HaltNow(self.halt.request, self.halt.save)
        return Wait("too few replicas; waiting for replacements") if paused else Proceed(active)

    def _adopts_at_once(self, pending: Generation) -> bool:
        """Recovery is at once; a newcomer goes to meet the state as soon as it is connected."""
        return not pending.planned or (self.active is None and self.parked)

    def park(self) -> list[Effect]:
        """The loop stands where it can become a member."""
        if self.parked:
            return []
        self.parked = True
        return [Send(Ready())]

    def adopted(self, generation: Generation, *, applied: int, collectives: int, cost: Cost) -> list[Effect]:
        """The transfers of ``generation`` are done; this replica's state stands at ``applied`` steps.

        Refused (no effects, nothing changed) when a fence overtook the transfer.
        """
        if self.pending is not generation or generation.number < self.fence:
            return []
        self.pending, self.pending_connected = None, False
        self._forget_plans()
        self.applied, self.collectives = applied, collectives
        self.has_state = True
        self.parked = False
        if self.replica in generation.members:
            self.active, self.joined_at = generation, applied
            self.broken = self.lingering = False
            self._committed_told = False
        else:
            self.lingering, self._left_for = True, generation.number
        return [Send(Switched(generation.number, cost))]

    def ballot(self, place: int, depth: int, *, stop: bool) -> Ballot:
        """This replica's vote, reduced beside the gradients of the step that begins.

        Args:
            place: Fingerprint of where in the program this replica is.
            depth: Steps its loader runs ahead.
            stop: Its loop asked for an early stop.
        """
        connected = self.pending is not None and self.pending.planned and self.pending_connected
        return Ballot(
            connected_to=self.pending.number if self.pending is not None and connected else 0,
            depth=depth,
            halt=self.halt is not None,
            stop=stop,
            place=place,
        )

    def decide(self, outcome: Outcome) -> None:
        """Take the outcome of the ballot of the step in flight (all members see the same).

        What it agrees on happens at the boundary behind the steps that loaders have loaded ahead.
        """
        if self.halt is not None and outcome.halt and self.halt_at is None:
            self.halt_at = self.applied + 1
        pending = self.pending
        if self.switch_at is None and pending is not None and outcome.connected_to == pending.number:
            self.switch_at = self.applied + outcome.depth + 1

    def applied_step(self, pause_s: float = 0.0) -> list[Effect]:
        """One more step is in this replica's state."""
        assert self.active is not None, "a step applied outside a generation"
        assert not self.broken, f"a step applied in the broken generation {self.active.number}"
        self.applied += 1
        self.collectives = 0
        if self._committed_told:
            return []
        self._committed_told = True
        return [Send(Committed(self.active.number, self.applied, pause_s))]

    def failed(self, number: int, cause: str) -> list[Effect]:
        """An operation of generation ``number`` failed: be silent in it and wait for the master.

        When it was the connection to a planned generation, the active one is as good as before and
        goes on: without this replica's vote nobody switches.
        """
        pending = self.pending if self.pending is not None and self.pending.number == number else None
        if number < self.fence or (pending is None and (self.active is None or self.active.number != number)):
            return []
        only_planned = pending is not None and pending.planned and not self.pending_connected
        if self.active is not None and not only_planned:
            self.broken = True
        if pending is not None:
            self.pending, self.pending_connected = None, False
        return [Send(GenerationFailed(number, self.applied, cause))]

    def halted(self, position: Position, path: str = "") -> list[Effect]:
        """Stopped as :class:`HaltNow` said; rank 0 has written ``path``. Refused when a fence overtook it."""
        if self.halt is None or self.active is None or self.broken:
            return []
        self.stopped = True
        if self.active.members[0] != self.replica:
            return []
        self._halted_told = Halted(self.halt.request, position, path, generation=self.active.number)
        return [Send(self._halted_told)]

    def take_saves(self) -> Sequence[Save]:
        """Checkpoints asked for since the last boundary."""
        saves, self.saves = tuple(self.saves), []
        return saves

    def finish(self) -> list[Effect]:
        """The loop returned."""
        self.finished = True
        return [Send(Finished(self.applied))]
