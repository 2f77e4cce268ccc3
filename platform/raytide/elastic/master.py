"""The master's side of the membership protocol, as a pure state machine.

:meth:`Master.handle` takes one event and the time, changes the :class:`JobState`, and returns the
effects for its shell to carry out. No I/O, no clock, no randomness. The rules:

* One generation at a time commits steps. A planned one takes over at a step its members agree on
  in band; after a failure everybody is fenced first, and the survivors form the next generation
  around the most advanced of them.
* A step counts once any survivor has applied it. The ones behind take that survivor's state.
* Replicas without state join by a planned switch only, at a boundary: survivors of a failure may stand
  anywhere in the user's loop. Too few survivors form a *paused* generation that waits for such a switch.
* Requests change the *target*; one switch brings the job to the newest target, whatever was asked
  in the meantime.

After every event the master looks at its whole state for what has become possible
(:meth:`Master._advance`); no part of it has to remember to tell another.
"""

from __future__ import annotations

from dataclasses import replace

from raytide.elastic.adoption import Adoption
from raytide.elastic.effects import Effect, EndJob, Note, StartReplica, StopReplica, Tell
from raytide.elastic.events import Event, From, Restarted, SlotsFound, Start, Tick
from raytide.elastic.messages import (
    Committed,
    Connected,
    Died,
    Diverged,
    Finished,
    FromReplica,
    GenerationFailed,
    Halted,
    Heartbeat,
    LoopRaised,
    Ready,
    Release,
    Saved,
    SaveFailed,
    Status,
    Switched,
)
from raytide.elastic.model import ReplicaId, Slot
from raytide.elastic.recovery import Recovery
from raytide.elastic.requests import Requests
from raytide.elastic.staffing import Staffing
from raytide.elastic.state import END_PHASES, PHASE_EDGES, JobState, Phase, ReplicaRecord
from raytide.elastic.switching import Switching
from raytide.elastic.watch import divergence, silent_replicas

__all__ = ["Event", "From", "Master", "Restarted", "SlotsFound", "Start", "Tick"]


class Master:
    """Decides the membership of one job.

    Args:
        state: A fresh or journalled state.
        store: ``host:port`` of the rendezvous store that new generations use.
    """

    def __init__(self, state: JobState, store: str) -> None:
        self.state = state
        self.store = store
        self.effects: list[Effect] = []
        self.switching = Switching(self)
        self.recovery = Recovery(self)
        self.adoption = Adoption(self)
        self.staffing = Staffing(self)
        self.requests = Requests(self)
        self._ticked_s = 0.0

    def handle(self, now: float, event: Event) -> list[Effect]:
        """Take one event; returns the effects in order. Journal the state before they leave."""
        self.effects = []
        match event:
            case From(replica, message):
                self._from_replica(now, replica, message)
            case Tick():
                self._tick(now)
            case Start(slots):
                self.staffing.start_all(now, slots)
            case SlotsFound(slots):
                self.staffing.offered(now, slots)
            case Restarted():
                self.adoption.begin(now)
            case _:
                self.requests.take(now, event)
        self._advance(now)
        self.state.outbox = tuple(self.effects)
        return self.effects

    def _advance(self, now: float) -> None:
        """Do what the state makes possible; the order matters only in that ending comes first."""
        if not self.ended:
            self.switching.succeed_if_finished()
        if not self.ended:
            self.requests.halt_if_idle(now)
            self.switching.complete(now)
            self.requests.settle(now)
            self.switching.form_if_ready(now)
            self.switching.pursue_target(now)
            self.staffing.ask(now)

    # --- helpers used by the parts -----------------------------------------------------------

    def emit(self, *effects: Effect) -> None:
        self.effects.extend(effects)

    def note(self, kind: str, text: str, **data: object) -> None:
        self.emit(Note(kind, text, data))

    def go(self, phase: Phase) -> None:
        """Change the phase along a legal edge."""
        current = self.state.phase
        assert phase in PHASE_EDGES[current], f"{self.state.job}: {current} -> {phase} is not a legal change"
        self.state.phase = phase

    def next_number(self) -> int:
        self.state.numbers += 1
        return self.state.numbers

    @property
    def ended(self) -> bool:
        return self.state.phase in END_PHASES

    def rank_of(self, replica: ReplicaId) -> int:
        """Rank in the active generation, -1 for none."""
        active = self.state.active
        return active.members.index(replica) if active and replica in active.members else -1

    def add_replica(self, now: float, slot: Slot) -> ReplicaId:
        """Start one more replica and return its name."""
        s = self.state
        name = f"r{s.next_replica}"
        s.next_replica += 1
        # Before the first generation there is no state to receive: everybody brings the initial one.
        initial = s.phase is Phase.STARTING
        s.replicas[name] = ReplicaRecord(slot, heard_s=now, initial=initial, position=s.position)
        s.target = (*s.target, name)
        self.emit(StartReplica(name, slot, initial, s.position, s.last_checkpoint if initial else ""))
        return name

    def drop_replica(self, replica: ReplicaId, reason: str, *, kill: bool = False, tell: bool = True) -> None:
        """Forget a replica and free its slot."""
        if self.state.replicas.pop(replica, None) is None:
            return
        self.state.target = tuple(r for r in self.state.target if r != replica)
        if tell and not kill:
            self.emit(Tell(replica, Release(reason)))
        self.emit(StopReplica(replica, reason, kill))

    def end(self, phase: Phase, error: str = "") -> None:
        """End the job: free everything, answer everybody."""
        self.go(phase)
        self.state.error = error
        for replica in list(self.state.replicas):
            self.drop_replica(replica, f"the job {phase}", kill=phase is Phase.FAILED)
        self.requests.refuse_all(f"the job {phase} first")
        self.note(str(phase), error or f"job {phase}")
        self.emit(EndJob(phase, error))

    # --- messages of replicas ----------------------------------------------------------------

    def _from_replica(self, now: float, replica: ReplicaId, message: FromReplica) -> None:
        s = self.state
        if replica not in s.replicas:
            if isinstance(message, Saved) and not self.ended:  # a leaver's checkpoint is as good as any
                self.requests.saved(now, message)
            if not isinstance(message, Died):  # one that was given up woke up, or has not heard yet
                self.emit(Tell(replica, Release("the job goes on without this replica")))
            return
        if not isinstance(message, Died):
            s.update(replica, heard_s=now, talked=True)
        match message:
            case Ready():
                s.update(replica, ready=True)
            case Heartbeat():
                self._heartbeat(now, replica, message)
            case Connected() | Switched() | Committed():
                self.switching.progress(replica, message)
            case GenerationFailed():
                self.recovery.generation_failed(now, replica, message)
            case Status():
                self._status(now, replica, message)
            case Died(cause):
                self.recovery.died(now, replica, cause)
            case _:
                self._from_loop(now, replica, message)

    def _from_loop(self, now: float, replica: ReplicaId, message: FromReplica) -> None:
        s = self.state
        match message:
            case Finished(step):
                s.update(replica, finished_at=step, place="finished")
            case LoopRaised(traceback_text):
                self.recovery.loop_raised(now, replica, traceback_text)
            case Diverged(generation=number, place=place):
                if s.active is not None and number == s.active.number:
                    s.update(replica, place=place, waiting_for="divergence")
                    s.diverged_s = s.diverged_s or now
            case Saved():
                self.requests.saved(now, message)
            case SaveFailed(request, error):
                self.note("checkpoint_failed", error)
                self.requests.save_failed(now, request, error)
            case Halted():
                self.requests.halted(now, replica, message)
            case _:
                raise AssertionError(f"unhandled message {message!r}")

    def _status(self, now: float, replica: ReplicaId, status: Status) -> None:
        """Catch up with what a lost message would have said, then see whose answer it is."""
        if status.ready:
            self.state.update(replica, ready=True)
        if status.finished:
            self.state.update(replica, finished_at=status.applied)
        if self.state.phase is Phase.ADOPTING:
            self.adoption.answered(now, replica, status)
        else:
            self.recovery.answered(now, replica, status)

    def _heartbeat(self, now: float, replica: ReplicaId, beat: Heartbeat) -> None:
        s = self.state
        record = s.replicas[replica]
        moved = (record.place, record.waiting_for, record.position) != (
            beat.place,
            beat.waiting_for,
            beat.position,
        )
        s.replicas[replica] = replace(
            record,
            position=beat.position,
            place=beat.place,
            waiting_for=beat.waiting_for,
            place_since_s=now if moved else record.place_since_s,
        )
        if self.rank_of(replica) >= 0:
            s.position = max(s.position, beat.position)

    def _tick(self, now: float) -> None:
        s = self.state
        stalled_s = max(0.0, now - self._ticked_s - 2 * s.bounds.limits.heartbeat_s) if self._ticked_s else 0.0
        self._ticked_s = now
        if stalled_s > 1.0:  # it was this process that slept: nobody else is to blame
            s.replicas = {r: replace(v, heard_s=v.heard_s + stalled_s) for r, v in s.replicas.items()}
            if s.fencing is not None:
                s.fencing = replace(s.fencing, started_s=s.fencing.started_s + stalled_s)
        for replica, silent_s in silent_replicas(s, now):
            if replica in s.replicas:
                self.recovery.died(now, replica, f"silent for {silent_s:.1f} s")
        self.recovery.expire(now)
        problem = "" if self.ended else divergence(s, now)
        if problem:
            self.end(Phase.FAILED, problem)
