"""What becomes of a rigid job: events in, effects out. No Ray, no clock, no I/O."""

from __future__ import annotations

from dataclasses import replace

from raytide.actors.gang.settings import DRIVER, RigidSettings
from raytide.actors.gang.state import (
    END_PHASES,
    LEAVING_PHASES,
    NODE,
    USER,
    Answer,
    Effect,
    End,
    Event,
    Exited,
    GangState,
    Granted,
    Harm,
    Kill,
    Launch,
    Lost,
    Member,
    Note,
    Phase,
    Release,
    Released,
    Restarted,
    Tick,
    Up,
    Wanted,
    Watch,
)

START_S = 600.0
"""A process that is not up by then is lost; packages of its ``runtime_env`` are installed within this."""

KILL_AFTER_S = 10.0
"""A process that should have left is killed this long after its grace, and given up after as long again."""

MOST_ANSWERED = 64
_KILLED = frozenset({-9, 128 + 9})
"""By a signal that the job did not send to itself; a shell tells of its command's as 128 and the number."""


class Gang:
    """The state machine of one rigid job.

    Args:
        state: New, or as a master before this one has left it.
        settings: The job.
    """

    def __init__(self, state: GangState, settings: RigidSettings) -> None:
        self.state = state
        self._settings = settings
        self._now = 0.0
        self._since_s = 0.0
        self._killed = False
        self._effects: list[Effect] = []

    def handle(self, now: float, event: Event) -> list[Effect]:
        """Take one event.

        Args:
            now: Seconds on a clock that never goes back; it may start anew with the master.
            event: What happened.

        Returns:
            What has to be done, in order.
        """
        self._now, self._effects = now, []
        match event:
            case Granted():
                self._granted(event)
            case Up(attempt, rank, pid):
                if self._concerns(attempt, rank):
                    self._up(rank, pid)
            case Exited(attempt, rank):
                if self._concerns(attempt, rank):
                    self._exited(event)
            case Lost(attempt, rank):
                if self._concerns(attempt, rank):
                    self._lost(event)
            case Wanted(request, goal):
                self._wanted(request, goal)
            case Released():
                self._released()
            case Tick():
                self._ticked()
            case Restarted():
                self._restarted()
        return self._effects

    def _do(self, *effects: Effect) -> None:
        self._effects += effects

    def _concerns(self, attempt: int, rank: int) -> bool:
        s = self.state
        return attempt == s.attempt and rank in s.members and not s.members[rank].left and s.goal is None

    # --- starting ----------------------------------------------------------------------------

    def _granted(self, event: Granted) -> None:
        s = self.state
        if s.slots:
            return self._answer(event.request)  # said again
        if s.phase not in (Phase.STARTING, Phase.SUSPENDED):
            self._do(Release())  # it ended while they were being reserved
            return self._answer(event.request, f"job {s.job} has {s.phase}")
        s.slots = event.slots
        self._launch()
        return self._answer(event.request)

    def _launch(self) -> None:
        s = self.state
        size = 1 if self._settings.launch == DRIVER else len(s.slots)
        s.attempt += 1
        s.members = {rank: Member() for rank in range(size)}
        s.harms, s.phase = (), Phase.STARTING
        self._since_s, self._killed = self._now, False
        self._do(Launch(s.attempt), Note("start", f"attempt {s.attempt}: starting {size} processes"))

    def _up(self, rank: int, pid: int) -> None:
        s = self.state
        s.members[rank] = replace(s.members[rank], pid=pid)
        self._check_running()

    def _check_running(self) -> None:
        s = self.state
        if s.phase is Phase.STARTING and all(m.pid or m.left for m in s.members.values()):
            s.phase = Phase.RUNNING
            self._do(Note("running", f"{len(s.members)} processes run"))

    # --- ends of processes -------------------------------------------------------------------

    def _exited(self, event: Exited) -> None:
        s, rank = self.state, event.rank
        s.members[rank] = replace(s.members[rank], left=True, code=event.code, told=event.told, tail=event.tail)
        if event.code != 0 and not event.told:
            text = f"rank {rank} exited with code {event.code}: {event.tail}".rstrip(": \n")
            self._harmed(Harm(text, NODE if event.code in _KILLED else USER))
        self._check_running()
        self._check_left()

    def _lost(self, event: Lost) -> None:
        s, rank = self.state, event.rank
        killed = s.members[rank].told
        s.members[rank] = replace(s.members[rank], left=True, code=-1)
        if not killed:
            self._harmed(Harm(f"rank {rank} was lost: {event.reason}", event.fault))
        self._check_left()

    def _harmed(self, harm: Harm) -> None:
        """All have to leave; a lost process is the cause even where those that missed it are heard first."""
        s = self.state
        if s.phase in (Phase.SUSPENDING, Phase.STOPPING):
            return  # it leaves anyway
        s.harms = (*s.harms, harm)
        self._leave(Phase.ENDING)

    def _leave(self, phase: Phase) -> None:
        s = self.state
        leaves_already, s.phase = s.phase in LEAVING_PHASES, phase
        if leaves_already:
            return
        self._since_s, self._killed = self._now, False
        self._do(*(self._end_of(rank) for rank, m in s.members.items() if not m.left))
        self._check_left()

    def _end_of(self, rank: int) -> Effect:
        """What is not up yet has nothing to save."""
        s = self.state
        return End(s.attempt, rank) if s.members[rank].pid else self._kill_of(rank)

    def _kill_of(self, rank: int) -> Effect:
        """Its loss is no harm then."""
        s = self.state
        s.members[rank] = replace(s.members[rank], told=True)
        return Kill(s.attempt, rank)

    def _check_left(self) -> None:
        s = self.state
        if s.goal is None and s.slots and all(m.left for m in s.members.values()):
            self._conclude()

    def _conclude(self) -> None:
        """Every process has left: what follows?"""
        s = self.state
        if all(m.done for m in s.members.values()):
            return self._release(Phase.SUCCEEDED)
        if s.phase is Phase.STOPPING:
            return self._release(Phase.STOPPED)
        if s.harms and not self._forgiven():
            return self._release(Phase.FAILED)
        if s.phase is Phase.SUSPENDING:
            return self._release(Phase.SUSPENDED)
        return self._launch()

    def _forgiven(self) -> bool:
        s, settings = self.state, self._settings
        harm = next((h for h in s.harms if h.fault == NODE), s.harms[0])
        if harm.fault == NODE:
            s.lost_nodes += 1
            forgiven = s.lost_nodes <= settings.lost_nodes
        else:
            s.user_errors += 1
            forgiven = s.user_errors <= settings.user_errors
        if not forgiven:
            s.error, s.fault = harm.text, harm.fault
        self._do(Note("retry" if forgiven else "failed", harm.text, {"fault": harm.fault}))
        return forgiven

    # --- leaving -----------------------------------------------------------------------------

    def _wanted(self, request: str, goal: Phase) -> None:
        s = self.state
        if request in s.answered:
            self._do(Answer(request, s.answered[request]))
        elif s.phase in END_PHASES:
            self._answer(request, "" if goal is Phase.STOPPED else f"job {s.job} has {s.phase}")
        elif not s.slots:
            s.phase = goal
            self._answer(request)
        elif request not in s.waiting:
            s.waiting[request] = goal
            self._turn_to(goal)

    def _turn_to(self, goal: Phase) -> None:
        s = self.state
        if s.goal is not None:
            if s.goal is Phase.SUSPENDED:
                s.goal = goal
        elif goal is Phase.STOPPED:
            self._leave(Phase.STOPPING)
        elif s.phase is not Phase.STOPPING:
            self._leave(Phase.SUSPENDING)

    def _release(self, goal: Phase) -> None:
        self.state.goal = goal
        self._do(Release())

    def _released(self) -> None:
        s = self.state
        if s.goal is None:
            return
        s.phase, s.goal, s.slots = s.goal, None, ()
        self._do(Note(str(s.phase), s.error or f"the job is {s.phase}; its slots are free"))
        waiting, s.waiting = s.waiting, {}
        for request, wanted in waiting.items():
            met = wanted in (s.phase, Phase.STOPPED)  # who wants it stopped has what he wants: it is over
            self._answer(request, "" if met else f"job {s.job} has {s.phase}")

    def _answer(self, request: str, error: str = "") -> None:
        s = self.state
        s.answered[request] = error
        for old in list(s.answered)[:-MOST_ANSWERED]:
            del s.answered[old]
        self._do(Answer(request, error))

    # --- time --------------------------------------------------------------------------------

    def _ticked(self) -> None:
        s = self.state
        if s.goal is not None or not s.slots:
            return
        waited_s = self._now - self._since_s
        if s.phase is Phase.STARTING and waited_s > START_S:
            late = next(rank for rank, m in s.members.items() if not m.pid and not m.left)
            self._harmed(Harm(f"rank {late} did not come up within {START_S:g} s", NODE))
        elif s.phase in LEAVING_PHASES:
            self._hurry(waited_s - self._settings.grace_s)

    def _hurry(self, over_s: float) -> None:
        s = self.state
        staying = [rank for rank, m in s.members.items() if not m.left]
        if over_s > 2 * KILL_AFTER_S:
            for rank in staying:
                s.members[rank] = replace(s.members[rank], left=True, code=-1, told=True)
            self._check_left()
        elif over_s > KILL_AFTER_S and not self._killed:
            self._killed = True
            self._do(*(self._kill_of(rank) for rank in staying))

    def _restarted(self) -> None:
        s = self.state
        self._since_s = self._now
        staying = [rank for rank, m in s.members.items() if not m.left]
        if s.goal is not None:
            self._do(Release())
        elif s.slots and s.phase is Phase.STARTING:
            self._do(Launch(s.attempt))
        elif s.slots:
            self._do(*(Watch(s.attempt, rank) for rank in staying))
            if s.phase in LEAVING_PHASES:
                self._do(*(self._end_of(rank) for rank in staying))
        self._do(Note("restarted", f"the master is back; {len(staying)} processes went on"))
