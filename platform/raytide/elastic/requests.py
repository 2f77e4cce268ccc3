"""Users' requests: how they change the target, and when they are answered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from raytide.elastic.effects import Answer, Tell
from raytide.elastic.messages import (
    Checkpoint,
    Halt,
    Halted,
    Request,
    Resize,
    Resume,
    Save,
    Saved,
    Stop,
    Suspend,
)
from raytide.elastic.model import Cost, Position, ReplicaId
from raytide.elastic.phase import Phase
from raytide.elastic.state import OpenRequest

if TYPE_CHECKING:
    from raytide.elastic.master import Master

_HALTS = ("stop", "suspend")
_RESIZES = ("scale_out", "scale_in", "migrate", "resume")
_ANSWERS_KEPT = 64


class Requests:
    """Open requests of one :class:`~raytide.elastic.master.Master`, on the master's state."""

    def __init__(self, master: Master) -> None:
        self._master = master

    def take(self, now: float, request: Request) -> None:
        """Take a request; one with a known id is the same one sent again: it changes nothing."""
        m, s = self._master, self._master.state
        if request.request in s.answered:
            m.emit(s.answered[request.request])
            return
        if request.request in s.requests:
            return
        problem = self._problem(request)
        if problem:
            self._answer(Answer(request.request, error=problem))
            return
        match request:
            case Resize():
                self._resize(now, request)
            case Checkpoint(request=name):
                self._open(now, name, "checkpoint")
                self.tell_again()
            case Suspend(request=name):
                self._halt(now, name, "suspend")
            case Stop(request=name):
                self._halt(now, name, "stop")
            case Resume():
                self._resume(now, request)

    @property
    def halting(self) -> bool:
        """The job is to end or to be suspended at the next occasion."""
        return any(r.kind in _HALTS for r in self._master.state.requests.values())

    # --- what is refused ---------------------------------------------------------------------

    def _problem(self, request: Request) -> str:
        s = self._master.state
        if self._master.ended:
            return f"the job has {s.phase}"
        suspended = s.phase is Phase.SUSPENDED
        if isinstance(request, Resume):
            return self._resume_problem(request) if suspended else f"the job is {s.phase}, not suspended"
        if suspended and not isinstance(request, Stop):
            return "the job is suspended: resume it first"
        return self._resize_problem(request) if isinstance(request, Resize) else ""

    def _resume_problem(self, request: Resume) -> str:
        low, high = self._bounds()
        if len(set(request.slots)) < len(request.slots):
            return "a slot is named twice"
        if not low <= len(request.slots) <= high:
            return f"{len(request.slots)} slots are outside num_workers=({low}, {high})"
        return ""

    def _resize_problem(self, request: Resize) -> str:
        s = self._master.state
        unknown = [r for r in request.remove if r not in s.target]
        if unknown or len(set(request.remove)) < len(request.remove):
            return f"{', '.join(unknown or request.remove)}: not a replica of this job, or already leaving"
        taken = {r.slot for r in s.replicas.values()} & set(request.add)
        if taken or len(set(request.add)) < len(request.add):
            return f"{', '.join(map(str, sorted(taken or request.add)))}: one replica per slot"
        low, high = self._bounds()
        change = len(request.add) - len(request.remove)
        # Lost replicas count as coming back, but nobody can be spared before they are.
        for size in (s.size + change, len(s.target) + change if change < 0 else low):
            if not low <= size <= high:
                return f"{size} replicas would be outside num_workers=({low}, {high})"
        return ""

    def _bounds(self) -> tuple[int, int]:
        bounds = self._master.state.bounds
        return bounds.min_replicas, bounds.max_replicas

    # --- resizes -----------------------------------------------------------------------------

    def _open(self, now: float, name: str, kind: str) -> None:
        self._master.state.requests[name] = OpenRequest(name, kind, now)

    def _resize(self, now: float, request: Resize) -> None:
        m, s = self._master, self._master.state
        s.size += len(request.add) - len(request.remove)
        adds = tuple(m.add_replica(now, slot) for slot in request.add)
        kind = "migrate" if request.add and request.remove else "scale_out" if request.add else "scale_in"
        s.target = tuple(r for r in s.target if r not in request.remove)
        s.requests[request.request] = OpenRequest(request.request, kind, now, adds, request.remove)
        involved = m.recovery.involved()
        for replica in request.remove:
            if replica not in involved:
                m.drop_replica(replica, "no longer needed")
        m.note("request", f"{kind}: {s.size} replicas wanted", size=s.size)

    def settle(self, now: float) -> None:
        """Answer the resizes that the running generation contains."""
        m, s = self._master, self._master.state
        if s.phase is not Phase.RUNNING or s.active is None or s.active.paused:
            return
        members = set(s.active.members)
        if not members <= set(s.switched):
            return  # what the switch cost is not known yet
        awaited = set(s.target) - members  # a newcomer that a later request took out is awaited no more
        for known in [r for r in s.requests.values() if r.kind in _RESIZES]:
            if awaited.isdisjoint(known.adds) and members.isdisjoint(known.removes):
                self.answer(now, known.request, cost=m.switching.cost())

    def replica_lost(self, replica: ReplicaId, cause: str) -> None:
        """A wanted replica is lost: if a request had added it and it had not joined, that failed so far."""
        s = self._master.state
        for known in [r for r in s.requests.values() if replica in r.adds]:
            left = replace(known, adds=tuple(r for r in known.adds if r != replica))
            if self._master.rank_of(replica) < 0:
                left = self._without(left, f"{replica} was lost before it joined: {cause}")
            s.requests[known.request] = left
            if left.problem and not left.adds and not left.removes:
                del s.requests[known.request]
                self._answer(Answer(known.request, error=left.problem))

    def _without(self, known: OpenRequest, problem: str) -> OpenRequest:
        """Give up one newcomer: in its place one leaver stays, or the job stays smaller."""
        s = self._master.state
        members = s.active.members if s.active else ()
        staying = next((r for r in known.removes if r in members and r in s.replicas), None)
        if staying is not None:
            s.target = (*s.target, staying)
        elif not known.removes:
            s.size -= 1
        removes = tuple(r for r in known.removes if r != staying)
        return replace(known, removes=removes, problem=known.problem or problem)

    def _resume(self, now: float, request: Resume) -> None:
        m = self._master
        m.go(Phase.STARTING)
        m.staffing.start_all(now, request.slots)
        self._open(now, request.request, "resume")

    # --- saves and halts ---------------------------------------------------------------------

    def _halt(self, now: float, name: str, kind: str) -> None:
        self._open(now, name, kind)
        self.halt_if_idle(now)
        self.tell_again()

    def halt_if_idle(self, now: float) -> None:
        """While nobody holds newer state than the last checkpoint there is nothing to wait for."""
        s = self._master.state
        if self.halting and s.phase in (Phase.STARTING, Phase.SUSPENDED):
            self._finish_halt(now, s.last_checkpoint)

    def tell_again(self) -> None:
        """Tell the members of the running generation what is still to be done."""
        m, s = self._master, self._master.state
        if s.phase is not Phase.RUNNING or s.active is None:
            return
        halts = sorted((r for r in s.requests.values() if r.kind in _HALTS), key=lambda r: _HALTS.index(r.kind))
        if halts:
            halt = Halt(halts[0].request, save=True, generation=s.active.number)
            m.emit(*(Tell(replica, halt) for replica in s.active.members))
        for known in s.requests.values():
            if known.kind == "checkpoint":
                m.emit(Tell(s.active.members[0], Save(known.request)))

    def halted(self, now: float, replica: ReplicaId, message: Halted) -> None:
        """Rank 0 stopped with everybody else and has written the state.

        In any other phase than ``running`` the generation is in doubt: it halts again when it is not.
        """
        m, s = self._master, self._master.state
        if s.phase is not Phase.RUNNING or s.active is None or s.active.number != message.generation:
            return
        if m.rank_of(replica) != 0 or not self.halting:
            return
        s.position = message.position
        self._remember(message.path, message.position)
        self._finish_halt(now, message.path)

    def _finish_halt(self, now: float, path: str) -> None:
        m, s = self._master, self._master.state
        kind = "stop" if any(r.kind == "stop" for r in s.requests.values()) else "suspend"
        for name in [r.request for r in s.requests.values() if r.kind == kind]:
            self.answer(now, name, path=path)
        if kind == "stop":
            m.end(Phase.STOPPED)
            return
        for replica in list(s.replicas):
            m.drop_replica(replica, "suspended")
        self.refuse_all("the job was suspended")
        s.active = s.pending = s.fencing = None
        m.go(Phase.SUSPENDED)
        m.note("suspended", f"suspended at step {s.position.step}", path=path)

    def saved(self, now: float, message: Saved) -> None:
        """A checkpoint is complete."""
        self._remember(message.path, message.position)
        self._master.note(
            "checkpoint",
            f"checkpoint at step {message.position.step}",
            path=message.path,
            pause_s=message.cost.pause_s,
        )
        self.answer(now, message.request, path=message.path, cost=message.cost)

    def _remember(self, path: str, position: Position) -> None:
        s = self._master.state
        if path and (not s.last_checkpoint or position >= s.checkpoint_position):
            s.last_checkpoint, s.checkpoint_position = path, position

    def save_failed(self, now: float, name: str, error: str) -> None:
        """A checkpoint failed: the request fails; a halt that needed it is called off."""
        m, s = self._master, self._master.state
        known = s.requests.pop(name, None)
        if known is None:
            return
        self._answer(Answer(name, error=error))
        if known.kind in _HALTS and s.phase in (Phase.RUNNING, Phase.ADOPTING):
            m.recovery.fence(now, f"{known.kind} called off: {error}")

    # --- answers -----------------------------------------------------------------------------

    def answer(self, now: float, name: str, *, path: str = "", cost: Cost | None = None) -> None:
        """Answer a request that is done."""
        s = self._master.state
        known = s.requests.pop(name, None)
        if known is None:
            return
        generation = s.active
        self._answer(
            Answer(
                name,
                error=known.problem,
                world_size=generation.world_size if generation else 0,
                generation=generation.number if generation else 0,
                cost=cost or Cost(),
                prepare_s=max(0.0, s.published_s - known.started_s) if known.kind in _RESIZES else 0.0,
                total_s=now - known.started_s,
                path=path,
            )
        )

    def _answer(self, answer: Answer) -> None:
        answered = self._master.state.answered
        answered[answer.request] = answer
        while len(answered) > _ANSWERS_KEPT:
            del answered[next(iter(answered))]
        self._master.emit(answer)

    def refuse_all(self, reason: str) -> None:
        """The job ended or was suspended: nobody waits in vain."""
        s = self._master.state
        for name in list(s.requests):
            del s.requests[name]
            self._answer(Answer(name, error=reason))
