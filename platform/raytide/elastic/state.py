"""What a master knows of its job: kept apart from its decisions so that it can be journalled whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from raytide.elastic.effects import Answer, Effect
from raytide.elastic.messages import Status
from raytide.elastic.model import Bounds, Cost, Generation, Position, ReplicaId, Slot
from raytide.elastic.phase import END_PHASES, LIVE_PHASES, PHASE_EDGES, Phase

__all__ = [
    "END_PHASES",
    "LIVE_PHASES",
    "PHASE_EDGES",
    "FenceRound",
    "JobState",
    "OpenRequest",
    "Phase",
    "ReplicaRecord",
]


@dataclass(frozen=True)
class ReplicaRecord:
    """One replica as the master sees it.

    Attributes:
        heard_s: When it last said anything.
        talked: It has said something since its start.
        initial: It started with the job (or its restart), so its initial state is legitimate.
        ready: Its loop is parked and waits for membership.
        finished_at: Applied steps when its loop returned, -1 before.
    """

    slot: Slot
    heard_s: float
    talked: bool = False
    initial: bool = False
    ready: bool = False
    finished_at: int = -1
    position: Position = field(default_factory=Position)
    place: str = ""
    waiting_for: str = ""
    place_since_s: float = 0.0

    @property
    def finished(self) -> bool:
        return self.finished_at >= 0


@dataclass(frozen=True)
class OpenRequest:
    """A user's request that has not been answered.

    Attributes:
        kind: ``scale_out``, ``scale_in``, ``migrate``, ``resume``, ``checkpoint``, ``suspend`` or ``stop``.
        adds: Replicas it added: done when they are members.
        removes: Replicas it takes out: done when they are members no more.
        problem: What could not be done of it; the rest goes on.
    """

    request: str
    kind: str
    started_s: float
    adds: tuple[ReplicaId, ...] = ()
    removes: tuple[ReplicaId, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class FenceRound:
    """Answers to one fence (or, with number 0, to a restarted master)."""

    number: int
    reason: str
    asked: tuple[ReplicaId, ...]
    started_s: float
    answers: dict[ReplicaId, Status] = field(default_factory=dict)

    def with_answer(self, replica: ReplicaId, status: Status) -> FenceRound:
        return replace(self, answers={**self.answers, replica: status})


@dataclass
class JobState:
    """Everything the master decides on; journalled whole before any of its effects leave.

    Attributes:
        numbers: Highest generation or fence number handed out.
        pending_committed: A step was applied in ``pending``.
        target: Replicas the job should consist of, newcomers included.
        size: How many replicas its users want; losses do not change it.
        asked: How many slots for replacements were last asked for, and when.
        answered: Newest answers, for requests that are sent again.
        outbox: Effects of the last event: a restarted master cannot know which of them left.
        lost: Replicas lost from a generation in doubt, with the causes: their requests hear of it later.
        last_checkpoint: Path of the newest complete checkpoint, empty for none.
        failures: Losses charged to the retry budget.
        next_replica: Number of the next replica's name.
    """

    job: str
    bounds: Bounds
    phase: Phase = Phase.STARTING
    numbers: int = 0
    active: Generation | None = None
    pending: Generation | None = None
    pending_committed: bool = False
    switched: dict[ReplicaId, Cost] = field(default_factory=dict)
    replicas: dict[ReplicaId, ReplicaRecord] = field(default_factory=dict)
    target: tuple[ReplicaId, ...] = ()
    size: int = 0
    asked: int = 0
    asked_s: float = 0.0
    published_s: float = 0.0
    fencing: FenceRound | None = None
    lost: dict[ReplicaId, str] = field(default_factory=dict)
    requests: dict[str, OpenRequest] = field(default_factory=dict)
    answered: dict[str, Answer] = field(default_factory=dict)
    outbox: tuple[Effect, ...] = ()
    last_checkpoint: str = ""
    checkpoint_position: Position = field(default_factory=Position)
    position: Position = field(default_factory=Position)
    failures: int = 0
    user_errors: int = 0
    next_replica: int = 0
    fault_s: float = 0.0
    diverged_s: float = 0.0
    error: str = ""

    def member_records(self) -> dict[ReplicaId, ReplicaRecord]:
        """Living members of the active generation, in rank order."""
        members = self.active.members if self.active else ()
        return {r: self.replicas[r] for r in members if r in self.replicas}

    def update(self, replica: ReplicaId, **changes: object) -> None:
        """Change fields of one replica's record."""
        self.replicas[replica] = replace(self.replicas[replica], **changes)  # type: ignore[arg-type] # callers name fields of the dataclass
