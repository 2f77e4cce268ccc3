"""How many replicas a job is short of, and where it gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raytide.elastic.effects import NeedSlots
from raytide.elastic.model import Slot
from raytide.elastic.phase import Phase

if TYPE_CHECKING:
    from raytide.elastic.master import Master


class Staffing:
    """Starts replicas of one :class:`~raytide.elastic.master.Master`, on the master's state."""

    def __init__(self, master: Master) -> None:
        self._master = master

    def start_all(self, now: float, slots: tuple[Slot, ...]) -> None:
        """Start the first replicas of the job, or of its resumption."""
        m, s = self._master, self._master.state
        s.active = s.pending = s.fencing = None
        s.target, s.size = (), len(slots)
        for slot in slots:
            m.add_replica(now, slot)

    def shortage(self) -> int:
        """How many replicas are missing, those not counted that are on their way."""
        s = self._master.state
        wanted = s.size if s.bounds.replace_lost else min(s.size, s.bounds.min_replicas)
        return max(0, wanted - len(s.target))

    def ask(self, now: float) -> None:
        """Ask for the slots that are missing: at once when they become more, else from time to time."""
        m, s = self._master, self._master.state
        if s.phase not in (Phase.STARTING, Phase.RUNNING):
            return
        missing = self.shortage()
        ending = m.requests.halting or any(r.finished for r in s.member_records().values())
        if not missing or ending:
            s.asked = 0
        elif missing > s.asked or now - s.asked_s >= s.bounds.limits.ask_again_s:
            s.asked, s.asked_s = missing, now
            m.emit(NeedSlots(missing, f"{missing} of {s.size} replicas are missing"))

    def offered(self, now: float, slots: tuple[Slot, ...]) -> None:
        """Use what is still needed of the slots found; the rest of the shortage is asked for again."""
        m, s = self._master, self._master.state
        if m.ended or s.phase is Phase.SUSPENDED:
            return
        held = {r.slot for r in s.replicas.values()}
        free = [slot for slot in dict.fromkeys(slots) if slot not in held]
        for slot in free[: self.shortage()]:
            m.add_replica(now, slot)
