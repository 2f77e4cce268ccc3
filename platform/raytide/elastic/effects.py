"""What a master wants done: returned by :class:`raytide.elastic.master.Master`, carried out by its shell.

Every effect may be carried out twice: a restarted master repeats those of its last event, because it
cannot know which of them left. A name of a replica or request makes the second one recognisable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from raytide.elastic.messages import ToReplica
from raytide.elastic.model import Cost, Position, ReplicaId, Slot
from raytide.elastic.phase import Phase


@dataclass(frozen=True)
class StartReplica:
    """Start ``replica`` on ``slot``.

    Attributes:
        initial: It begins at ``position`` with the job (from ``checkpoint``, if any); otherwise it is a
            newcomer that rehearses and receives its state from a member.
    """

    replica: ReplicaId
    slot: Slot
    initial: bool
    position: Position
    checkpoint: str


@dataclass(frozen=True)
class StopReplica:
    """End ``replica`` and free its slot; ``kill`` when it cannot be expected to listen."""

    replica: ReplicaId
    reason: str
    kill: bool = False


@dataclass(frozen=True)
class Tell:
    """Send ``message`` to ``replica``."""

    replica: ReplicaId
    message: ToReplica


@dataclass(frozen=True)
class NeedSlots:
    """The job is short of ``count`` replicas: find that many free slots.

    Said again from time to time while it holds, each time with the whole shortage. Offers come back as
    :class:`~raytide.elastic.master.SlotsFound`; a slot that is not used at once is free again.
    """

    count: int
    reason: str


@dataclass(frozen=True)
class Answer:
    """The answer to a user's request.

    Attributes:
        error: Why it was refused or failed, empty on success.
        prepare_s: From the request to the publication of the generation.
        total_s: From the request to the first committed step.
    """

    request: str
    error: str = ""
    world_size: int = 0
    generation: int = 0
    cost: Cost = field(default_factory=Cost)
    prepare_s: float = 0.0
    total_s: float = 0.0
    path: str = ""


@dataclass(frozen=True)
class Note:
    """Something people want to know: an entry of the job's event log."""

    kind: str
    text: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class EndJob:
    """The job is over."""

    phase: Phase
    error: str = ""


Effect = StartReplica | StopReplica | Tell | NeedSlots | Answer | Note | EndJob
