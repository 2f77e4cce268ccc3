"""A rigid job as its master knows it: the state that is written down, the events that change it, what is done then."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from raytide.elastic.model import Slot

USER, NODE = "user", "node"


class Phase(StrEnum):
    """Where a rigid job is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    """It came to harm; what comes next is decided when every process has left."""
    SUSPENDING = "suspending"
    STOPPING = "stopping"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


END_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED})
LEAVING_PHASES = frozenset({Phase.ENDING, Phase.SUSPENDING, Phase.STOPPING})
"""Its processes were told to leave."""


@dataclass(frozen=True)
class Member:
    """One process of the present attempt.

    Attributes:
        pid: Its id; 0 until it runs.
        left: It is over.
        code: With which it ended: negative for a signal.
        told: It was told to end before it did, or is being killed.
        tail: The end of its output.
    """

    pid: int = 0
    left: bool = False
    code: int = 0
    told: bool = False
    tail: str = ""

    @property
    def done(self) -> bool:
        """It ended by itself, and well."""
        return self.left and self.code == 0 and not self.told


@dataclass(frozen=True)
class Harm:
    """What happened to a process, and whose fault it is: ``user`` or ``node``."""

    text: str
    fault: str


@dataclass
class GangState:
    """Everything that a restarted master has to know.

    Attributes:
        job: Its name.
        phase: Where it is.
        slots: What it holds, in rank order.
        attempt: How often its processes were started; processes carry it in their names.
        members: The processes of this attempt, by rank.
        harms: What happened to them before they were told to leave, first to last.
        goal: The phase that follows when every slot is given back; None unless that is under way.
        user_errors: Attempts that the job ended with an error.
        lost_nodes: Attempts that ended with a lost process.
        error: Why it failed.
        fault: Whose.
        waiting: Requests that are answered when its slots are free, with the phase that each wants.
        answered: Those that were, with what was wrong, newest last.
    """

    job: str
    phase: Phase = Phase.STARTING
    slots: tuple[Slot, ...] = ()
    attempt: int = 0
    members: dict[int, Member] = field(default_factory=dict)
    harms: tuple[Harm, ...] = ()
    goal: Phase | None = None
    user_errors: int = 0
    lost_nodes: int = 0
    error: str = ""
    fault: str = ""
    waiting: dict[str, Phase] = field(default_factory=dict)
    answered: dict[str, str] = field(default_factory=dict)

    @property
    def released(self) -> bool:
        """It is over and holds nothing."""
        return self.phase in END_PHASES

    def wants(self, attempt: int) -> bool:
        """Whether the processes of this attempt are still needed."""
        return bool(self.slots) and attempt == self.attempt


# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Granted:
    """The slots were reserved."""

    request: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Up:
    """A process runs."""

    attempt: int
    rank: int
    pid: int


@dataclass(frozen=True)
class Exited:
    """A process is over, and all that it had started; fields as in :class:`Member`."""

    attempt: int
    rank: int
    code: int
    told: bool
    tail: str


@dataclass(frozen=True)
class Lost:
    """A process is gone with the actor that watched it, or could not be started."""

    attempt: int
    rank: int
    reason: str
    fault: str = NODE


@dataclass(frozen=True)
class Wanted:
    """Somebody wants it suspended, or stopped: ``goal`` is one of these phases."""

    request: str
    goal: Phase


@dataclass(frozen=True)
class Released:
    """Nothing is held any more."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Restarted:
    """The master is a new one, and processes of the one before may run."""


Event = Granted | Up | Exited | Lost | Wanted | Released | Tick | Restarted

# --- effects --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """Start every process of an attempt that is not there, after ending those of attempts before."""

    attempt: int


@dataclass(frozen=True)
class Watch:
    """Find a process again that a master before this one has started."""

    attempt: int
    rank: int


@dataclass(frozen=True)
class End:
    """Let a process save and leave within the job's grace."""

    attempt: int
    rank: int


@dataclass(frozen=True)
class Kill:
    """End a process at once."""

    attempt: int
    rank: int


@dataclass(frozen=True)
class Release:
    """Give back every slot."""


@dataclass(frozen=True)
class Answer:
    """A request is done, or cannot be met (then ``error`` says why)."""

    request: str
    error: str = ""


@dataclass(frozen=True)
class Note:
    """Something for the job's log."""

    kind: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


Effect = Launch | Watch | End | Kill | Release | Answer | Note
