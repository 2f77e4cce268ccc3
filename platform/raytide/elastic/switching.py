"""Forming generations and switching between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raytide.elastic.effects import Tell
from raytide.elastic.messages import Committed, Connected, Publish, Switched
from raytide.elastic.model import Cost, Generation, ReplicaId, Transfer, rank_order, spread_transfers
from raytide.elastic.phase import Phase

if TYPE_CHECKING:
    from raytide.elastic.master import Master


class Switching:
    """From one generation to the next, on the state of one :class:`~raytide.elastic.master.Master`."""

    def __init__(self, master: Master) -> None:
        self._master = master

    # --- at once -----------------------------------------------------------------------------

    def form_if_ready(self, now: float) -> None:
        """In phase ``starting``: form the first generation once all of the target are ready."""
        s = self._master.state
        if s.phase is not Phase.STARTING or len(s.target) < s.bounds.min_replicas:
            return
        if all(s.replicas[r].ready for r in s.target):
            # All are initial, and yet unlike each other: random initial weights have to be one's.
            self.form(now, s.target, spread_transfers(s.target[:1], s.target[1:]))

    def form(self, now: float, members: tuple[ReplicaId, ...], transfers: tuple[Transfer, ...]) -> None:
        """Begin a generation at once: the first one, or, after a fence, a paused one if too few are left."""
        m, s = self._master, self._master.state
        slots = {r: s.replicas[r].slot for r in members}
        paused = len(members) < s.bounds.min_replicas
        generation = Generation(m.next_number(), rank_order(members, slots), transfers, m.store, paused=paused)
        s.active, s.pending, s.switched, s.fencing = generation, None, {}, None
        s.published_s, s.diverged_s = now, 0.0
        m.go(Phase.FORMING)
        m.emit(*(Tell(replica, Publish(generation)) for replica in generation.participants()))

    # --- planned -----------------------------------------------------------------------------

    def pursue_target(self, now: float) -> None:
        """In phase ``running``: publish the target once every newcomer is ready.

        A paused job does not wait for the last of them. A job about to end (halting, or finished
        somewhere) does not change any more: not everybody would reach the boundary.
        """
        m, s = self._master, self._master.state
        if s.phase is not Phase.RUNNING or s.active is None or m.requests.halting:
            return
        old = s.active.members
        newcomers = tuple(r for r in s.target if r not in old)
        ready = tuple(r for r in newcomers if s.replicas[r].ready)
        stayers = tuple(r for r in old if r in s.target)
        members = (*stayers, *ready)
        if set(members) == set(old) or len(members) < s.bounds.min_replicas:
            return
        if (len(ready) < len(newcomers) and not s.active.paused) or any(s.replicas[r].finished for r in old):
            return
        leavers = tuple(r for r in old if r not in s.target)
        transfers = spread_transfers((*leavers, *stayers), ready)
        self._publish(now, members, transfers)

    def _publish(self, now: float, members: tuple[ReplicaId, ...], transfers: tuple[Transfer, ...]) -> None:
        m, s = self._master, self._master.state
        assert s.active is not None
        ordered = rank_order(members, {r: s.replicas[r].slot for r in members})
        s.pending = Generation(m.next_number(), ordered, transfers, m.store, planned=True)
        s.pending_committed, s.switched, s.published_s = False, {}, now
        m.go(Phase.SWITCHING)
        m.emit(*(Tell(r, Publish(s.pending)) for r in dict.fromkeys((*s.active.members, *members))))

    def progress(self, replica: ReplicaId, message: Connected | Switched | Committed) -> None:
        """Note how far a replica is on its way into a generation."""
        match message:
            case Switched():
                self._switched(replica, message)
            case Committed():
                self._committed(message)
            case Connected():
                pass  # readiness is voted in band; for people, and for logs

    def _switched(self, replica: ReplicaId, message: Switched) -> None:
        """A participant has the state of the new generation."""
        s = self._master.state
        if message.generation in (g.number for g in (s.active, s.pending) if g):
            s.switched[replica] = message.cost

    def _committed(self, message: Committed) -> None:
        """A first step: remembered, since it may arrive while the master is busy with something else."""
        s = self._master.state
        if s.pending is not None and message.generation == s.pending.number:
            s.pending_committed = True

    def complete(self, now: float) -> None:
        """The new generation runs: all members adopted it after a fence, or it committed a step."""
        s = self._master.state
        if s.phase is Phase.FORMING and s.active and set(s.active.members) <= set(s.switched):
            self._running(now)
        elif s.phase is Phase.SWITCHING and s.pending_committed:
            s.active, s.pending, s.pending_committed = s.pending, None, False
            self._running(now)
            self.succeed_if_finished()

    def _running(self, now: float) -> None:
        m, s = self._master, self._master.state
        assert s.active is not None
        m.go(Phase.RUNNING)
        for replica in s.active.members:
            s.update(replica, ready=False)
        self._release_outsiders()
        self._note_generation(now)
        m.requests.tell_again()

    def _release_outsiders(self) -> None:
        """Let go of who is neither a member nor wanted: leavers, and newcomers no longer needed."""
        m, s = self._master, self._master.state
        inside = {*(s.active.members if s.active else ()), *s.target}
        for replica in [r for r in s.replicas if r not in inside]:
            m.drop_replica(replica, "left the job")

    def _note_generation(self, now: float) -> None:
        m, s = self._master, self._master.state
        assert s.active is not None
        cost = self.cost()
        m.note(
            "generation",
            f"generation {s.active.number}: {s.active.world_size} replicas"
            + (", paused until there are more" if s.active.paused else ""),
            generation=s.active.number,
            world_size=s.active.world_size,
            members=s.active.members,
            planned=s.active.planned,
            paused=s.active.paused,
            step=s.position.step,
            pause_s=cost.pause_s,
            transfer_s=cost.transfer_s,
            bytes_moved=cost.bytes_moved,
            recovery_s=now - s.fault_s if s.fault_s else 0.0,
        )
        s.fault_s = 0.0

    def cost(self) -> Cost:
        """What the last membership change cost the job: the longest pause, all bytes."""
        costs = self._master.state.switched.values()
        return Cost(
            max((c.pause_s for c in costs), default=0.0),
            max((c.transfer_s for c in costs), default=0.0),
            sum(c.bytes_moved for c in costs),
        )

    # --- the end -----------------------------------------------------------------------------

    def succeed_if_finished(self) -> None:
        """The job succeeded once the loop of every member has returned."""
        m, s = self._master, self._master.state
        members = s.active.members if s.active else ()
        if s.phase in (Phase.RUNNING, Phase.SWITCHING) and all(
            r in s.replicas and s.replicas[r].finished for r in members
        ):
            m.end(Phase.SUCCEEDED)
