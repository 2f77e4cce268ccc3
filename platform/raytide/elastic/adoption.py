"""A restarted master takes over a running job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from raytide.elastic.effects import Note, Tell
from raytide.elastic.messages import AskStatus, Status
from raytide.elastic.model import Cost, ReplicaId
from raytide.elastic.phase import LIVE_PHASES, Phase
from raytide.elastic.state import FenceRound

if TYPE_CHECKING:
    from raytide.elastic.master import Master


class Adoption:
    """What one :class:`~raytide.elastic.master.Master` does first, on the state of the one before it."""

    def __init__(self, master: Master) -> None:
        self._master = master

    def begin(self, now: float) -> None:
        """Repeat what may not have left, then find out where everybody stands.

        Everything said to the lost master meanwhile is lost: answers to :class:`AskStatus` say it again.
        """
        m, s = self._master, self._master.state
        m.emit(*(e for e in s.outbox if not isinstance(e, Note)))
        s.asked = 0
        if m.ended or s.phase is Phase.SUSPENDED:
            return
        m.note("master_restarted", f"the master restarted in phase {s.phase}")
        s.replicas = {r: replace(v, heard_s=now) for r, v in s.replicas.items()}
        if s.phase is Phase.FENCING:
            m.recovery.fence(now, "the master restarted during a fence")
        elif s.phase in LIVE_PHASES:
            m.go(Phase.ADOPTING)
            s.fencing = FenceRound(0, "the master restarted", m.recovery.involved(), now)
        m.emit(*(Tell(r, AskStatus()) for r in s.replicas))

    def answered(self, now: float, replica: ReplicaId, status: Status) -> None:
        """Go on when all have answered and the generation is whole; otherwise fence."""
        m, s = self._master, self._master.state
        assert s.fencing is not None
        s.fencing = s.fencing.with_answer(replica, status)
        answers = m.recovery.answers()
        if answers is None:
            return
        if not self._whole(answers):
            m.recovery.fence(now, "the master restarted and found the generation incomplete")
            return
        s.fencing = None
        self._catch_up(answers)
        m.go(Phase.RUNNING if s.pending is None else Phase.SWITCHING)
        m.requests.tell_again()

    def _whole(self, answers: dict[ReplicaId, Status]) -> bool:
        """All members take part, and all who take part in the pending switch are connected to it.

        The rendezvous store died with the old master: connections still being made will fail.
        """
        s = self._master.state
        assert s.active is not None
        numbers = {g.number for g in (s.active, s.pending) if g is not None}
        healthy = all(r in answers and answers[r].active in numbers for r in s.active.members)
        if not healthy or any(a.broken for a in answers.values()):
            return False
        if s.pending is None:
            return True
        new = s.pending.number
        involved = {*s.active.members, *s.pending.members}
        return all(
            r in answers and new in (answers[r].pending, answers[r].active, answers[r].left_for) for r in involved
        )

    def _catch_up(self, answers: dict[ReplicaId, Status]) -> None:
        """Take from the answers what the lost messages said."""
        s = self._master.state
        assert s.active is not None
        newest = s.pending or s.active
        for replica, answer in answers.items():
            if newest.number in (answer.active, answer.left_for):
                s.switched.setdefault(replica, Cost())
            if s.pending is not None and answer.active == s.pending.number and answer.applied > answer.joined_at:
                s.pending_committed = True
