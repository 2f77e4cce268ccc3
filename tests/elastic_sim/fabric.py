"""Simulated groups: connecting, and collective operations with partial failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elastic_sim.clock import Clock, ProtocolViolation

if TYPE_CHECKING:
    from elastic_sim.process import Process
    from raytide.elastic.model import Generation

MAIN = -1
GroupKey = tuple[int, int]
"""Generation number, and ``MAIN`` or the number of the transfer."""


@dataclass(eq=False)
class Handle:
    """One participant's view of one operation."""

    owner: Process
    done: bool = False
    ok: bool = False
    result: object = None
    decided: bool = False

    def finish(self, *, ok: bool, result: object = None) -> None:
        if self.done:
            return
        self.done, self.ok, self.result = True, ok, result
        self.owner.poke()


@dataclass(eq=False)
class Operation:
    place: object
    payloads: dict[str, object] = field(default_factory=dict)
    handles: dict[str, Handle] = field(default_factory=dict)
    complete: bool = False


@dataclass(eq=False)
class Group:
    """A process group: broken for good once a participant is gone."""

    key: GroupKey
    participants: tuple[str, ...]
    store: str
    arrived: dict[str, Process] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    joined: dict[str, int] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    glitch: bool = False

    @property
    def formed(self) -> bool:
        return set(self.arrived) == set(self.participants)


class Fabric:
    """All groups of a world."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.groups: dict[GroupKey, Group] = {}
        self.dead_stores: set[str] = set()

    # --- connecting --------------------------------------------------------------------------

    def groups_of(self, process: str, generation: Generation) -> list[Group]:
        wanted: dict[int, tuple[str, ...]] = {i: t.participants() for i, t in generation.transfers_of(process)}
        if process in generation.members:
            wanted[MAIN] = generation.members
        found = []
        for index, participants in wanted.items():
            key = (generation.number, index)
            found.append(self.groups.setdefault(key, Group(key, participants, generation.store)))
        return found

    def connect(self, process: Process, generation: Generation, limit_s: float) -> None:
        """Join all groups of the generation; tells ``process.connected`` or ``process.connect_failed``."""
        groups = self.groups_of(process.name, generation)
        for group in groups:
            if group.store not in self.dead_stores and process.name not in group.gone:
                group.arrived[process.name] = process
                if group.formed:
                    self._formed(group, generation)
        dead = any(g.store in self.dead_stores for g in groups)
        wait_s = self.clock.between(0.2, 1.0) if dead else limit_s
        self.clock.after(wait_s, lambda: process.post(lambda: process.connect_failed(generation.number)))

    def _formed(self, group: Group, generation: Generation) -> None:
        for process in group.arrived.values():
            delay_s = self.clock.between(0.01, 0.4)
            self.clock.after(delay_s, lambda p=process: p.post(lambda: self._look(p, generation)))

    def _look(self, process: Process, generation: Generation) -> None:
        if all(g.formed for g in self.groups_of(process.name, generation)):
            process.connected(generation.number)

    def kill_store(self, store: str) -> None:
        """The rendezvous store is gone: what has not connected through it never will."""
        self.dead_stores.add(store)
        for group in self.groups.values():
            if group.store == store and not group.formed:
                for process in group.arrived.values():
                    self.clock.after(
                        self.clock.between(0.2, 1.0),
                        lambda p=process, n=group.key[0]: p.post(lambda: p.connect_failed(n)),
                    )

    # --- operations --------------------------------------------------------------------------

    def launch(self, process: Process, key: GroupKey, place: object, payload: object) -> Handle:
        """Contribute to the participant's next operation of the group."""
        group, handle = self.groups[key], Handle(process)
        index = group.joined.get(process.name, 0)
        group.joined[process.name] = index + 1
        if process.name in group.gone:
            self._later(handle, ok=False)
            return handle
        if index == len(group.operations):
            group.operations.append(Operation(place))
        operation = group.operations[index]
        if operation.place != place:
            raise ProtocolViolation(f"{process.name} is at {place}, others of {key} are at {operation.place}")
        operation.payloads[process.name], operation.handles[process.name] = payload, handle
        self._advance(group, operation)
        return handle

    def _advance(self, group: Group, operation: Operation) -> None:
        missing = set(group.participants) - set(operation.payloads)
        if missing & group.gone:
            for handle in operation.handles.values():
                self._later(handle, ok=False)
        elif not missing and not operation.complete:
            operation.complete = True
            doubtful = bool(group.gone) or group.glitch
            group.glitch = False
            for name, handle in operation.handles.items():
                if name not in group.gone:
                    ok = not doubtful or self.clock.chance(0.5)
                    self._later(handle, ok=ok, result=dict(operation.payloads))

    def _later(self, handle: Handle, *, ok: bool, result: object = None) -> None:
        if handle.decided:
            return
        handle.decided = ok is False or handle.decided
        delay_s = self.clock.between(0.001, 0.03)
        self.clock.after(delay_s, lambda: handle.owner.post(lambda: handle.finish(ok=ok, result=result)))

    def leave(self, process: str, group: Group) -> None:
        """A participant aborts the group or died: operations under way fail, or succeed for some."""
        if process in group.gone:
            return
        group.gone.add(process)
        for operation in group.operations:
            own = operation.handles.get(process)
            if own is not None and not own.done:
                own.decided = True
                own.owner.post(lambda h=own: h.finish(ok=False))
            for name, handle in operation.handles.items():
                if name != process and not handle.done and self.clock.chance(0.5):
                    self._later(handle, ok=False)
            self._advance(group, operation)

    def abort_below(self, process: str, number: int) -> None:
        for group in list(self.groups.values()):
            if group.key[0] < number and process in group.participants:
                self.leave(process, group)

    def died(self, process: str) -> None:
        self.abort_below(process, 1 << 60)
