"""A master driven by hand: for tests that tell one story message by message."""

from __future__ import annotations

from dataclasses import replace

from raytide.elastic.effects import Answer, Effect, Tell
from raytide.elastic.journal import dumps, loads
from raytide.elastic.master import Event, From, Master, Restarted, SlotsFound, Start, Tick
from raytide.elastic.messages import (
    Committed,
    Died,
    Finished,
    FromReplica,
    Ready,
    Status,
    Switched,
    ToReplica,
)
from raytide.elastic.model import Bounds, Generation, Slot
from raytide.elastic.state import JobState, Phase

MEMBER = Status(
    fence=0,
    active=0,
    joined_at=0,
    applied=0,
    has_state=True,
    broken=False,
    pending=0,
    ready=False,
    finished=False,
)
NEWCOMER = replace(MEMBER, has_state=False)


def slot(number: int) -> Slot:
    return Slot("n", number)


class Desk:
    """One master; every call gives it one event, one second after the one before."""

    def __init__(self, replicas: int = 2, low: int = 1, high: int = 8, **bounds: object) -> None:
        self.now = 0.0
        self.effects: list[Effect] = []
        self.answers: dict[str, Answer] = {}
        self.master = Master(JobState("job", Bounds(low, high, **bounds)), "store:1")
        self.event(Start(tuple(slot(i) for i in range(replicas))))

    # --- what happens ------------------------------------------------------------------------

    def event(self, event: Event) -> Desk:
        self.now += 1.0
        self.effects = self.master.handle(self.now, event)
        for answer in self.found(Answer):
            assert self.answers.setdefault(answer.request, answer) == answer
        return self

    def says(self, replica: str, *messages: FromReplica) -> Desk:
        for message in messages:
            self.event(From(replica, message))
        return self

    def everybody(self, message: FromReplica, *replicas: str) -> Desk:
        for replica in replicas:
            self.says(replica, message)
        return self

    def dies(self, *replicas: str) -> Desk:
        return self.everybody(Died("killed"), *replicas)

    def restart(self) -> Desk:
        """A new master process takes over the journal."""
        self.master = Master(loads(dumps(self.master.state)), "store:2")
        return self.event(Restarted())

    def slots(self, *numbers: int) -> Desk:
        return self.event(SlotsFound(tuple(slot(n) for n in numbers)))

    def wait(self, seconds: float) -> Desk:
        self.now += seconds
        return self.event(Tick())

    # --- whole passages ----------------------------------------------------------------------

    def running(self) -> Desk:
        """All replicas started, ready and members; the first step is applied."""
        self.everybody(Ready(), *self.master.state.target)
        self.adopted()
        first = self.active.members[0]
        return self.says(first, Committed(self.active.number, 1))

    def adopted(self) -> Desk:
        """All members of the generation just formed have adopted it."""
        return self.everybody(Switched(self.active.number), *self.active.members)

    def committed(self, step: int = 10) -> Desk:
        """The pending switch takes place and commits its first step."""
        pending = self.pending
        self.everybody(Switched(pending.number), *pending.participants())
        return self.says(pending.members[0], Committed(pending.number, step))

    def finished(self, step: int = 20) -> Desk:
        return self.everybody(Finished(step), *self.active.members)

    def answer_fence(self, applied: int = 10, **differing: Status) -> Desk:
        """Everybody asked answers that it stands at ``applied`` in the active generation, but for some."""
        fencing = self.master.state.fencing
        number, active = fencing.number, self.active.number
        usual = replace(MEMBER, active=active, applied=applied, broken=True)
        for replica in fencing.asked:
            if self.phase is Phase.FENCING and replica in self.master.state.replicas:
                self.says(replica, replace(differing.get(replica, usual), fence=number))
        return self

    # --- what can be seen --------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        return self.master.state.phase

    @property
    def active(self) -> Generation:
        assert self.master.state.active is not None
        return self.master.state.active

    @property
    def pending(self) -> Generation:
        assert self.master.state.pending is not None
        return self.master.state.pending

    @property
    def target(self) -> set[str]:
        return set(self.master.state.target)

    def found(self, kind: type) -> list:
        """Effects of one type, of the last event."""
        return [e for e in self.effects if isinstance(e, kind)]

    def told(self, replica: str) -> list[ToReplica]:
        """Messages to one replica, of the last event."""
        return [e.message for e in self.found(Tell) if e.replica == replica]
