"""One simulated replica: a real ``Member`` and a training loop written as a coroutine."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elastic_sim.clock import ProtocolViolation
from elastic_sim.fabric import MAIN, Handle
from raytide.elastic.ballot import Outcome, fingerprint
from raytide.elastic.effects import StartReplica
from raytide.elastic.member import (
    AbortBelow,
    Adopt,
    Connect,
    Exit,
    HaltNow,
    Member,
    Proceed,
    Rejoin,
    Send,
    Wait,
)
from raytide.elastic.messages import FromReplica, Heartbeat, LoopRaised, Saved, SaveFailed, ToReplica
from raytide.elastic.model import Cost, Generation, Position

if TYPE_CHECKING:
    from elastic_sim.world import World

Call = tuple[int, int]
"""A user collective: (step that began last, number of the call since then)."""
Until = Callable[[], bool]
Coroutine = Generator[Until, None, None]


class LoopExit(Exception):
    """The job needs this replica no more."""


@dataclass(frozen=True)
class Applied:
    """One step in a replica's state.

    Attributes:
        step: Which.
        generation: By which generation.
        seen: User collectives after the step before, and what each of them gave.
    """

    step: int
    generation: int
    seen: tuple[object, ...]


@dataclass(frozen=True)
class Snapshot:
    """What a transfer carries and a checkpoint holds."""

    origin: str
    steps: tuple[Applied, ...] = ()
    results: dict[Call, int] = field(default_factory=dict)
    collectives: int = 0


class Process:
    """A replica's process; ``post`` is its only entrance, so that a frozen one notices nothing."""

    def __init__(self, world: World, start: StartReplica) -> None:
        self.world, self.clock, self.fabric = world, world.clock, world.fabric
        self.name, self.slot = start.replica, start.slot
        self.initial = start.initial
        loaded = world.checkpoints[start.checkpoint] if start.checkpoint else Snapshot(f"init {self.name}")
        self.origin, self.steps = loaded.origin, loaded.steps
        self.results: dict[Call, int] = {}
        self.member = Member(self.name, has_state=start.initial, applied=len(self.steps))
        self.alive, self.frozen, self.stopping = True, False, False
        self.unreachable, self.kill_on_wake = False, False
        self._begun, self._calls, self._attempted = len(self.steps) - 1, 0, False
        self._body_generation: Generation | None = None
        self.waiting_for = ""
        self.raise_at_boundary = False
        self._deferred: list[Callable[[], None]] = []
        self._ready: Until | None = None
        self._loop: Coroutine | None = None

    # --- the process -------------------------------------------------------------------------

    def begin(self) -> None:
        if self.alive:
            self._loop = self._run()
            self._resume()
            self._beat()

    def post(self, callback: Callable[[], None]) -> None:
        """Let ``callback`` run in this process: now, when it wakes, or never."""
        if not self.alive:
            return
        if self.frozen:
            self._deferred.append(callback)
        else:
            callback()

    def wake(self) -> None:
        self.frozen = False
        waiting, self._deferred = self._deferred, []
        for callback in waiting:
            self.post(callback)

    def die(self) -> None:
        if not self.alive:
            return
        self.alive = False
        self._deferred.clear()
        self.fabric.died(self.name)
        self.world.slot_freed(self)

    def poke(self) -> None:
        """Something changed: the loop may have what it waits for."""
        if self._ready is not None and self._ready():
            self.clock.after(self.clock.between(0.0, 0.002), lambda: self.post(self._resume_if_ready))

    def _resume_if_ready(self) -> None:
        if self._ready is not None and self._ready():
            self._resume()

    def _resume(self) -> None:
        assert self._loop is not None
        self._ready = None
        try:
            while True:
                ready = next(self._loop)
                if not ready():
                    self._ready = ready
                    return
        except StopIteration:
            self.die()

    def sleep(self, low_s: float, high_s: float) -> Coroutine:
        over: list[bool] = []
        self.clock.after(
            self.clock.between(low_s, high_s), lambda: self.post(lambda: (over.append(True), self.poke())[1])
        )
        yield lambda: bool(over)

    def _beat(self) -> None:
        if not self.alive:
            return
        if not self.frozen:
            active = self.member.active.number if self.member.active else 0
            place = "finished" if self.member.finished else "step"
            self.tell(Heartbeat(active, Position(self.member.applied), place, self.waiting_for))
        self.clock.after(self.world.limits.heartbeat_s, self._beat)

    # --- control -----------------------------------------------------------------------------

    def tell(self, message: FromReplica) -> None:
        self.world.to_master(self.name, message)

    def receive(self, message: ToReplica) -> None:
        self.carry_out(self.member.handle(message))
        self._changed = True
        self.poke()

    def carry_out(self, effects: list[object]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    self.tell(message)
                case Connect(generation):
                    self.fabric.connect(self, generation, self.world.limits.connect_s)
                case AbortBelow(number):
                    self.fabric.abort_below(self.name, number)

    def connected(self, number: int) -> None:
        if not self.member.pending_connected:
            self.carry_out(self.member.connected(number))
            self.poke()

    def connect_failed(self, number: int) -> None:
        pending = self.member.pending
        if pending is not None and pending.number == number and not self.member.pending_connected:
            self.carry_out(self.member.failed(number, "could not connect"))
            self.poke()

    # --- the loop ----------------------------------------------------------------------------

    def _run(self) -> Coroutine:
        try:
            if not self.initial:
                yield from self.sleep(0.05, 0.6)
            self.carry_out(self.member.park())
            while True:
                generation = yield from self._call_point(boundary=True)
                if self.member.applied >= self.world.steps:
                    break
                if generation is not None:
                    yield from self._body(self.member.applied)
            self.carry_out(self.member.finish())
            self.world.finished(self)
            while True:
                yield from self._call_point(boundary=False)
        except LoopExit:
            self.clock.say(self.name, "exits")

    def _call_point(self, *, boundary: bool) -> Generator[Until, None, Generation | None]:
        """What ``batches()`` and ``all_reduce()`` do first: None where the loop runs on without effect."""
        while True:
            if boundary and self.raise_at_boundary:
                self.tell(LoopRaised("ValueError: by plan"))
                raise LoopExit
            if boundary and self.member.applied >= self.world.steps and self._trains():
                return None
            action = self.member.next_action(boundary=boundary)
            match action:
                case Proceed(generation):
                    if boundary:
                        self._save_if_asked()
                    return generation
                case Wait():
                    yield from self._until_changed()
                case Adopt(generation):
                    yield from self._adopt(generation)
                case HaltNow():
                    yield from self._halt(action)
                case Rejoin():
                    if not boundary:
                        return None
                    yield from self.sleep(0.02, 0.3)
                    self.carry_out(self.member.park())
                case Exit():
                    raise LoopExit

    def _trains(self) -> bool:
        member = self.member
        return member.active is not None and not member.broken and not member.lingering

    def _until_changed(self) -> Coroutine:
        self._changed = False
        connected = self.member.pending_connected
        yield lambda: self._changed or self.member.pending_connected != connected

    def _wait(self, handle: Handle, what: str) -> Coroutine:
        self.waiting_for = what
        yield lambda: handle.done
        self.waiting_for = ""

    def _body(self, index: int) -> Coroutine:
        """What a user's loop does with one batch: some collectives before the step, some after it."""
        self._body_generation, self._attempted = self.member.active, False
        self._begun, self._calls = index, 0
        self.results = {k: v for k, v in self.results.items() if k[0] == index - 1}
        if index % 5 == 2:
            yield from self._user_collective()
        generation = yield from self._call_point(boundary=False)
        if generation is not None and not self._void():
            self._attempted = True
            yield from self._step(generation)
        if index % 4 == 3:
            yield from self._user_collective()

    def _void(self) -> bool:
        """This pass of the body has no effect and will be repeated; to be asked behind a call point.

        Survivors of a failure stand in different bodies: one may have begun the next, which for the
        others has not begun. So a recovery voids every body whose step nobody has applied.
        """
        recovered = self.member.active is not self._body_generation
        return self.member.applied <= self._begun and (self._attempted or recovered)

    def _step(self, generation: Generation) -> Coroutine:
        member, applied, depth = self.member, self.member.applied, self.world.depth
        vote = member.ballot(fingerprint("step", applied), depth, stop=False)
        key = (generation.number, MAIN)
        ballot = self.fabric.launch(self, key, ("ballot", applied), vote.encode())
        yield from self.sleep(0.005, self.world.step_s)
        gradients = self.fabric.launch(self, key, ("gradients", applied), None)
        yield from self._wait(gradients, "gradients")
        yield from self._wait(ballot, "ballot")
        if not (ballot.ok and gradients.ok):
            self.carry_out(member.failed(generation.number, "an all-reduce failed"))
            return
        reduced = [max(column) for column in zip(*ballot.result.values(), strict=True)]
        outcome = Outcome.decode(reduced)
        member.decide(outcome)
        if member.broken or member.active is not generation:
            return
        seen = tuple(sorted(item for item in self.results.items() if item[0][0] == applied - 1))
        self.steps = (*self.steps, Applied(applied + 1, generation.number, seen))
        self.carry_out(member.applied_step())
        self.world.applied(self, generation)

    def _user_collective(self) -> Coroutine:
        key = (self._begun, self._calls)
        self._calls += 1
        while True:
            generation = yield from self._call_point(boundary=False)
            if generation is None or self._void():
                return
            if key in self.results:
                return
            handle = self.fabric.launch(self, (generation.number, MAIN), ("user", *key), self.name)
            yield from self._wait(handle, "user collective")
            if not handle.ok:
                self.carry_out(self.member.failed(generation.number, "a user collective failed"))
            elif not self.member.broken and self.member.active is generation:
                self.results[key] = generation.number
                if not self.world.gathers:
                    self.member.collectives = sum(k[0] == self.member.applied - 1 for k in self.results)
                return

    def _adopt(self, generation: Generation) -> Coroutine:
        staged: Snapshot | None = None
        for index, transfer in generation.transfers_of(self.name):
            sends = transfer.source == self.name
            payload = self.snapshot() if sends else None
            handle = self.fabric.launch(self, (generation.number, index), ("transfer",), payload)
            yield from self._wait(handle, "transfer")
            yield from self.sleep(0.0, 0.1)
            if not handle.ok:
                self.carry_out(self.member.failed(generation.number, "a transfer failed"))
                return
            staged = staged if sends else handle.result[transfer.source]
        if self.world.gathers and not generation.planned and self.name in generation.members:
            handle = self.fabric.launch(self, (generation.number, MAIN), ("gather",), dict(self.results))
            yield from self._wait(handle, "gather")
            if not handle.ok:
                self.carry_out(self.member.failed(generation.number, "a gather failed"))
                return
            for results in handle.result.values():
                self.results = {**results, **self.results}
        self._become_member(generation, staged)

    def _become_member(self, generation: Generation, staged: Snapshot | None) -> None:
        """In one go: nothing that arrives may come between the protocol's word and the state."""
        before = self.member.status()
        applied = len((staged or self).steps)
        collectives = staged.collectives if staged else self.member.collectives
        cost = Cost(bytes_moved=1)
        effects = self.member.adopted(generation, applied=applied, collectives=collectives, cost=cost)
        if not effects:
            return
        if staged is not None:
            self._install(staged, had_state=before.adopted)
        self.carry_out(effects)
        self.world.adopted(self, generation)

    def _install(self, staged: Snapshot, *, had_state: bool) -> None:
        if had_state and staged.steps[: len(self.steps)] != self.steps:
            raise ProtocolViolation(f"{self.name} would undo steps: {self.steps} become {staged.steps}")
        self.origin, self.steps = staged.origin, staged.steps
        self.results = {**staged.results, **self.results}
        if self._begun < len(self.steps) - 1:
            self._begun, self._calls = len(self.steps) - 1, 0

    def snapshot(self) -> Snapshot:
        return Snapshot(self.origin, self.steps, dict(self.results), self.member.collectives)

    def _halt(self, action: HaltNow) -> Coroutine:
        member, path = self.member, ""
        assert member.active is not None
        if action.save and member.active.members[0] == self.name:
            snapshot = self.snapshot()
            yield from self.sleep(0.05, 0.3)
            if self.clock.chance(self.world.save_fails):
                self.tell(SaveFailed(action.request, "disk full"))
                yield from self.sleep(0.05, 0.1)
                return
            path = self.world.save(snapshot)
        self.carry_out(member.halted(Position(member.applied), path))

    def _save_if_asked(self) -> None:
        for save in self.member.take_saves():
            snapshot, step = self.snapshot(), self.member.applied

            def written(request: str = save.request, snapshot: Snapshot = snapshot, step: int = step) -> None:
                self.tell(Saved(request, self.world.save(snapshot), Position(step)))

            self.clock.after(self.clock.between(0.05, 0.5), lambda w=written: self.post(w))
