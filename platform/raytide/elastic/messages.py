"""Messages between the master of a job and its replicas, and requests of its users.

A message that speaks of a generation or a fence carries its number, and receivers refuse old ones; the others (ready,
saved, finished) stay true in every generation. Delivery may be late, out of order, or (when a process died) never.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raytide.elastic.model import Cost, Generation, Position, ReplicaId, Slot

# --- master -> replica -----------------------------------------------------------------------


@dataclass(frozen=True)
class Publish:
    """Connect to ``generation``; take part in it from the step agreed in band, or after a fence at once."""

    generation: Generation


@dataclass(frozen=True)
class Fence:
    """Be silent in every generation below ``number`` from now on, and answer where you stand."""

    number: int


@dataclass(frozen=True)
class Demote:
    """The recovery with fence ``number`` goes on without this replica: it is a newcomer again."""

    number: int


@dataclass(frozen=True)
class Halt:
    """End training of ``generation`` together at an agreed boundary; rank 0 saves first if ``save``.

    It ends with its generation: whoever forms the next one says it again if it is still wanted.
    """

    request: str
    save: bool
    generation: int


@dataclass(frozen=True)
class Save:
    """Rank 0: write a checkpoint of the next boundary beside training."""

    request: str


@dataclass(frozen=True)
class Release:
    """The job needs this replica no more."""

    reason: str


@dataclass(frozen=True)
class AskStatus:
    """A restarted master asks where everybody stands."""


ToReplica = Publish | Fence | Demote | Halt | Save | Release | AskStatus

# --- replica -> master -----------------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """The loop stands at its first boundary (or is back there): context, model and data are prepared."""


@dataclass(frozen=True)
class Connected:
    """Connected to the group of ``generation``."""

    generation: int


@dataclass(frozen=True)
class Switched:
    """This replica took part in the transfer of ``generation`` and is a member (or left)."""

    generation: int
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class Committed:
    """First step applied in ``generation``: there is no way back to the one before."""

    generation: int
    step: int
    pause_s: float = 0.0


@dataclass(frozen=True)
class GenerationFailed:
    """An operation of ``generation`` failed here; its step was not applied."""

    generation: int
    step: int
    cause: str


@dataclass(frozen=True)
class Status:
    """Where a replica stands; the answer to a fence (``fence`` > 0) or to :class:`AskStatus`.

    Attributes:
        fence: Number of the fence answered, 0 for none.
        active: Generation it takes part in, 0 for none.
        joined_at: Step at which it became a member of ``active``.
        applied: Steps applied to its state.
        has_state: Its state is the job's (false for a newcomer before its transfer).
        broken: Its generation failed or was fenced.
        pending: Generation it is connected to and not yet in, 0 for none.
        ready: Its loop is parked and waits for membership.
        finished: Its loop returned.
        collectives: User collectives completed since ``applied``.
        left_for: Planned generation in whose favour it left, 0 for none: it waits for its first step.
    """

    fence: int
    active: int
    joined_at: int
    applied: int
    has_state: bool
    broken: bool
    pending: int
    ready: bool
    finished: bool
    collectives: int = 0
    left_for: int = 0

    @property
    def adopted(self) -> bool:
        """Its state came from (or went to) the other members: not just the one it started with."""
        return self.has_state and self.active > 0

    @property
    def progress(self) -> tuple[int, int]:
        """How far its state is; a completed user collective counts, others may have missed its result."""
        return (self.applied, self.collectives)


@dataclass(frozen=True)
class Heartbeat:
    """Sign of life with what the loop is doing.

    Attributes:
        waiting_for: The collective the loop waits in, empty for none.
        place: Where the loop is (``step``, ``validation``, ``finished`` ...), for humans.
        busy_s: Seconds per step without waiting for data or peers, over the last steps.
        steps_measured: How many steps ``busy_s`` rests on, counted since the loop began.
        step_s: Seconds from one applied step to the next, median over this generation's last ones.
        samples_per_s: Samples of the whole job per second, over the same steps.
        batch: Samples of a full step of the whole job; 0 while unknown.
    """

    generation: int
    position: Position
    place: str
    waiting_for: str = ""
    busy_s: float = 0.0
    steps_measured: int = 0
    step_s: float = 0.0
    samples_per_s: float = 0.0
    batch: int = 0


@dataclass(frozen=True)
class Diverged:
    """Members found in band that they are at different places of the program."""

    generation: int
    position: Position
    place: str


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written."""

    request: str
    path: str
    position: Position
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class SaveFailed:
    """A checkpoint could not be written; training goes on."""

    request: str
    error: str


@dataclass(frozen=True)
class Halted:
    """Training of ``generation`` ended together at ``position``; rank 0 wrote ``path``, if anything."""

    request: str
    position: Position
    path: str = ""
    generation: int = field(kw_only=True)


@dataclass(frozen=True)
class Finished:
    """The loop returned after ``step`` applied steps."""

    step: int


@dataclass(frozen=True)
class LoopRaised:
    """The user's code raised (never retried as if a node had been lost)."""

    traceback_text: str


@dataclass(frozen=True)
class Died:
    """The replica's process is gone (said by the cluster, or concluded from silence)."""

    cause: str


FromReplica = (
    Ready
    | Connected
    | Switched
    | Committed
    | GenerationFailed
    | Status
    | Heartbeat
    | Diverged
    | Saved
    | SaveFailed
    | Halted
    | Finished
    | LoopRaised
    | Died
)

# --- users -> master -------------------------------------------------------------------------


@dataclass(frozen=True)
class Resize:
    """Add replicas on ``add`` and take out ``remove``, in one switch (both: a migration)."""

    request: str
    add: tuple[Slot, ...] = ()
    remove: tuple[ReplicaId, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """Write a checkpoint beside training."""

    request: str


@dataclass(frozen=True)
class Suspend:
    """Save, then give back every slot; :class:`Resume` goes on from there."""

    request: str


@dataclass(frozen=True)
class Resume:
    """Go on from the last checkpoint on ``slots``."""

    request: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Stop:
    """End the job at the next boundary, with a checkpoint."""

    request: str


Request = Resize | Checkpoint | Suspend | Resume | Stop
