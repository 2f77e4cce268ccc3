"""What the master does after a failure: fence everybody, find the most advanced, form around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raytide.elastic.effects import Tell
from raytide.elastic.messages import Demote, Fence, GenerationFailed, Status
from raytide.elastic.model import Generation, ReplicaId, Transfer, spread_transfers
from raytide.elastic.phase import LIVE_PHASES, Phase
from raytide.elastic.state import FenceRound
from raytide.errors import LOOP_RAISED

if TYPE_CHECKING:
    from raytide.elastic.master import Master


class Recovery:
    """Failure handling of one :class:`~raytide.elastic.master.Master`, on the master's state."""

    def __init__(self, master: Master) -> None:
        self._master = master

    # --- what can go wrong -------------------------------------------------------------------

    def generation_failed(self, now: float, replica: ReplicaId, failed: GenerationFailed) -> None:
        """A member could not complete an operation: fence, and let the answers show who is left."""
        s = self._master.state
        known = [g.number for g in (s.active, s.pending) if g is not None]
        if s.phase in LIVE_PHASES and failed.generation in known:
            self.fence(now, f"{replica}: {failed.cause}")

    def died(self, now: float, replica: ReplicaId, cause: str) -> None:
        """A replica is gone. Members take their generation with them; newcomers only themselves."""
        m, s = self._master, self._master.state
        rank = m.rank_of(replica)
        m.note("lost", f"{replica} (rank {rank}) lost: {cause}", replica=replica, rank=rank)
        s.failures += 1
        self._lose(now, replica, cause)
        if s.failures > s.bounds.max_failures and not m.ended:
            m.end(
                Phase.FAILED,
                f"lost {s.failures} replicas, more than max_failures={s.bounds.max_failures}: {cause}",
            )

    def _lose(self, now: float, replica: ReplicaId, cause: str) -> None:
        m, s = self._master, self._master.state
        involved, wanted = replica in self.involved(), replica in s.target
        m.drop_replica(replica, cause, kill=True, tell=False)
        if wanted and involved:
            s.lost[replica] = cause
        elif wanted:
            self._settle_losses({replica: cause})
        if s.phase in LIVE_PHASES and involved:
            self.fence(now, f"{replica} lost: {cause}")
        elif s.phase is Phase.FENCING:
            self._complete_if_answered(now)

    def _settle_losses(self, lost: dict[ReplicaId, str]) -> None:
        """Tell requests of lost replicas, once it is certain which generation they were lost from.

        A newcomer may have been a member of a switch that had committed unheard.
        """
        m, s = self._master, self._master.state
        for replica, cause in lost.items():
            m.requests.replica_lost(replica, cause)
        if not s.bounds.replace_lost:
            s.size = max(s.bounds.min_replicas, len(s.target))
        s.lost = {r: cause for r, cause in s.lost.items() if r not in lost}

    def loop_raised(self, now: float, replica: ReplicaId, traceback_text: str) -> None:
        """User code raised: never retried as a lost node; a newcomer's failure ends its request only."""
        m, s = self._master, self._master.state
        rank = m.rank_of(replica)
        if rank < 0 and not s.replicas[replica].initial:
            m.note("newcomer_failed", f"{replica} raised while it prepared:\n{traceback_text}")
            self._lose(now, replica, f"raised while it prepared: {traceback_text}")
            return
        s.user_errors += 1
        if s.user_errors > s.bounds.max_user_errors:
            m.end(Phase.FAILED, f"{LOOP_RAISED}{max(rank, 0)}\n{traceback_text}")
        else:
            self.restart_from_checkpoint(f"{LOOP_RAISED}{rank}")

    # --- fence -------------------------------------------------------------------------------

    def involved(self) -> tuple[ReplicaId, ...]:
        """Everybody who may hold state of, or take part in, a current generation."""
        s = self._master.state
        names = [r for g in (s.active, s.pending) if g is not None for r in g.participants()]
        return tuple(r for r in dict.fromkeys(names) if r in s.replicas)

    def fence(self, now: float, reason: str) -> None:
        """Silence every generation so far and ask where everybody stands."""
        m, s = self._master, self._master.state
        s.fault_s = s.fault_s or now
        asked = self.involved()
        s.fencing = FenceRound(m.next_number(), reason, asked, now)
        m.go(Phase.FENCING)
        m.note("fence", f"fence {s.fencing.number}: {reason}", number=s.fencing.number)
        m.emit(*(Tell(r, Fence(s.fencing.number)) for r in asked))
        self._complete_if_answered(now)

    def answered(self, now: float, replica: ReplicaId, status: Status) -> None:
        """An answer to the fence in force; others are late and refused."""
        s = self._master.state
        if s.phase is Phase.FENCING and s.fencing is not None and status.fence == s.fencing.number:
            s.fencing = s.fencing.with_answer(replica, status)
            self._complete_if_answered(now)

    def answers(self) -> dict[ReplicaId, Status] | None:
        """Answers of all living asked replicas; None while some are missing."""
        s = self._master.state
        assert s.fencing is not None
        alive = [r for r in s.fencing.asked if r in s.replicas]
        if any(r not in s.fencing.answers for r in alive):
            return None
        return {r: s.fencing.answers[r] for r in alive}

    def expire(self, now: float) -> None:
        """Give up replicas that live, but are stuck where they cannot answer (inside a kernel, for example)."""
        s = self._master.state
        if s.phase is not Phase.FENCING or s.fencing is None or now - s.fencing.started_s < s.bounds.limits.fence_s:
            return
        for replica in [r for r in s.fencing.asked if r in s.replicas and r not in s.fencing.answers]:
            if s.phase is Phase.FENCING and replica in s.replicas:
                self.died(now, replica, f"did not answer a fence for {s.bounds.limits.fence_s:.0f} s")

    def _complete_if_answered(self, now: float) -> None:
        answers = self.answers()
        if answers is not None:
            self._recover(now, answers)

    # --- recovery ----------------------------------------------------------------------------

    def _recover(self, now: float, answers: dict[ReplicaId, Status]) -> None:
        m, s = self._master, self._master.state
        holders = self._holders(answers)
        if not holders:
            self.restart_from_checkpoint("no survivor holds the job's state")
            return
        base = s.active = self._base(answers)
        self._settle_losses(s.lost)
        members = tuple(r for r in base.members if r in answers)
        if not any(r in holders for r in members):
            members = tuple(r for r in answers if r in holders)[: s.bounds.max_replicas]
        if all(answers[r].finished for r in members):
            m.end(Phase.SUCCEEDED)
            return
        self._demote(answers, members)
        m.switching.form(now, members, self._transfers(members, holders))

    @staticmethod
    def _holders(answers: dict[ReplicaId, Status]) -> dict[ReplicaId, tuple[int, int]]:
        """Who has the job's state, and how far it is.

        Initial states differ until the first transfer: before it, one replica's is the job's.
        """
        adopted = {r: a.progress for r, a in answers.items() if a.adopted}
        initial = {r: a.progress for r, a in answers.items() if a.has_state}
        return adopted or dict(list(initial.items())[:1])

    def _base(self, answers: dict[ReplicaId, Status]) -> Generation:
        """The membership that goes on: the planned one if it has committed a step, else the one before."""
        s = self._master.state
        pending, s.pending = s.pending, None
        assert s.active is not None
        if pending is None:
            return s.active
        in_it = [a for a in answers.values() if a.active == pending.number]
        return pending if any(a.applied > a.joined_at for a in in_it) else s.active

    @staticmethod
    def _transfers(members: tuple[ReplicaId, ...], holders: dict[ReplicaId, tuple[int, int]]) -> tuple[Transfer, ...]:
        best = max(holders.values())
        ahead = tuple(r for r, progress in holders.items() if progress == best)
        sources = tuple(r for r in members if r in ahead) or ahead
        return spread_transfers(sources, tuple(r for r in members if r not in ahead))

    def _demote(self, answers: dict[ReplicaId, Status], members: tuple[ReplicaId, ...]) -> None:
        """Those who stay alive without being members are newcomers again."""
        m, s = self._master, self._master.state
        assert s.fencing is not None
        for replica, answer in answers.items():
            if replica not in members:
                s.update(replica, ready=answer.ready)
                m.emit(Tell(replica, Demote(s.fencing.number)))

    def restart_from_checkpoint(self, reason: str) -> None:
        """Nobody holds the state any more: begin again from the last checkpoint, or from the start."""
        m, s = self._master, self._master.state
        where = s.last_checkpoint or "the beginning (there is no checkpoint)"
        m.note("restart", f"{reason}: restarting from {where}", checkpoint=s.last_checkpoint)
        for replica in list(s.replicas):
            if replica in s.target:
                s.lost[replica] = reason
            m.drop_replica(replica, reason, kill=True)
        self._settle_losses(s.lost)
        s.active = s.pending = s.fencing = None
        s.position = s.checkpoint_position
        s.asked = 0
        m.go(Phase.STARTING)
