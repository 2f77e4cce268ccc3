"""The world around the protocol: master process, cluster, network, and what must always hold."""

from __future__ import annotations

from collections.abc import Callable

from elastic_sim.clock import Clock, ProtocolViolation
from elastic_sim.fabric import Fabric
from elastic_sim.process import Process, Snapshot
from raytide.elastic.effects import Answer, Effect, EndJob, NeedSlots, Note, StartReplica, StopReplica, Tell
from raytide.elastic.journal import dumps, loads
from raytide.elastic.master import Event, From, Master, Restarted, SlotsFound, Start, Tick
from raytide.elastic.messages import Died, FromReplica, Heartbeat, Request, Resize
from raytide.elastic.model import Bounds, Generation, Limits, Slot
from raytide.elastic.state import JobState, Phase

LIMITS = Limits(heartbeat_s=0.2, suspect_s=1.5, connect_s=3.0, divergence_s=5.0, start_s=8.0, ask_again_s=0.5)
SLOTS = tuple(Slot(f"n{i // 2}", i % 2) for i in range(10))


class World:
    """One job, from its start to its end.

    Args:
        seed: Of all delays and choices.
        replicas: How many the job starts with.
        steps: After how many its loop ends.
    """

    def __init__(
        self,
        seed: int,
        replicas: int,
        bounds: Bounds,
        *,
        steps: int = 12,
        step_s: float = 0.05,
        depth: int = 0,
    ) -> None:
        self.clock, self.limits = Clock(seed), bounds.limits
        self.fabric = Fabric(self.clock)
        self.steps, self.step_s, self.depth = steps, step_s, depth
        self.save_fails, self.gathers = 0.0, True
        self.processes: dict[str, Process] = {}
        self.known: set[str] = set()
        self.holders: dict[Slot, str] = {}
        self.checkpoints: dict[str, Snapshot] = {}
        self.requests: dict[str, Request] = {}
        self.answers: dict[str, Answer] = {}
        self.notes: list[Note] = []
        self.phases: list[Phase] = [Phase.STARTING]
        self.applied_at: list[float] = []
        self.ended: EndJob | None = None
        self.on_phase: list[tuple[Phase, float, Callable[[], None]]] = []
        self.crash_next: int | None = None
        self._stores = 0
        self.up = True
        self._late: list[Event] = []
        self.master = Master(JobState("job", bounds), "store-0")
        self.handle(Start(SLOTS[:replicas]))
        self._tick()

    # --- the master's process ----------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Give the master an event, if it lives; journal; carry out what it wants."""
        if not self.up:
            if self.clock.chance(0.3):
                self._late.append(event)
            return
        if not isinstance(event, Tick) and not (isinstance(event, From) and isinstance(event.message, Heartbeat)):
            self.clock.say("master", "<-", event)
        effects = self.master.handle(self.clock.now, event)
        self._look_at_phase()
        self._check_master()
        if self.crash_next is not None:
            kept, self.crash_next = self.crash_next, None
            self._carry_out(effects[:kept])
            self.crash_master(2.0)
        else:
            self._carry_out(effects)

    def crash_master(self, down_s: float) -> None:
        """The master's process dies with its store; another one takes over the journal."""
        if not self.up:
            return
        self.clock.say("world", f"the master dies in phase {self.master.state.phase}")
        self.up = False
        self.fabric.kill_store(self.master.store)
        journal = dumps(self.master.state)
        self.clock.after(down_s, lambda: self._restart_master(journal))

    def _restart_master(self, journal: str) -> None:
        self._stores += 1
        state = loads(journal)
        if dumps(state) != journal:
            raise ProtocolViolation("the journal does not say what the state was")
        self.clock.say("world", f"the master is back in phase {state.phase}")
        self.master, self.up = Master(state, f"store-{self._stores}"), True
        self.handle(Restarted())
        late, self._late = self._late, []
        for event in late:
            self.clock.after(self.clock.between(0.0, 0.3), lambda e=event: self.handle(e))
        for name in sorted(self.requests.keys() - self.answers.keys()):
            self.clock.after(0.3, lambda r=self.requests[name]: self.handle(r))

    def _tick(self) -> None:
        if self.ended is None:
            self.handle(Tick())
            self.clock.after(0.2, self._tick)

    def _look_at_phase(self) -> None:
        phase = self.master.state.phase
        if phase is self.phases[-1]:
            return
        self.phases.append(phase)
        self.clock.say("master", "==", phase)
        for entry in [e for e in self.on_phase if e[0] is phase]:
            self.on_phase.remove(entry)
            self.clock.after(entry[1], entry[2])

    # --- the master's effects ----------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if not isinstance(effect, Note):
                self.clock.say("master", "->", effect)
            match effect:
                case StartReplica():
                    self._start_replica(effect)
                case StopReplica():
                    self._stop_replica(effect)
                case Tell(replica, message):
                    process = self.processes.get(replica)
                    if process is not None:
                        self._send(lambda p=process, m=message: p.post(lambda: p.receive(m)))
                case NeedSlots(count):
                    self.clock.after(self.clock.between(0.05, 1.0), lambda n=count: self._offer(n))
                case Answer():
                    self._answered(effect)
                case Note():
                    self.notes.append(effect)
                case EndJob():
                    self._end(effect)

    def _send(self, deliver: Callable[[], None]) -> None:
        slow = self.clock.chance(0.05)
        self.clock.after(self.clock.between(0.1, 0.6) if slow else self.clock.between(0.001, 0.02), deliver)

    def to_master(self, replica: str, message: FromReplica) -> None:
        self._send(lambda: self.handle(From(replica, message)))

    def _start_replica(self, start: StartReplica) -> None:
        if start.replica in self.known:
            return
        self.known.add(start.replica)
        holder = self.holders.get(start.slot)
        if holder is not None and not self.processes[holder].stopping:
            raise ProtocolViolation(f"{start.slot} is held by {holder} and given to {start.replica}")
        if holder is not None:
            self.known.discard(start.replica)
            self.clock.after(0.1, lambda: self._start_late(start))
            return
        process = Process(self, start)
        self.processes[start.replica], self.holders[start.slot] = process, start.replica
        self.clock.after(self.clock.between(0.02, 0.4), lambda: process.post(process.begin))

    def _start_late(self, start: StartReplica) -> None:
        if start.replica in self.master.state.replicas:
            self._start_replica(start)

    def _stop_replica(self, stop: StopReplica) -> None:
        process = self.processes.get(stop.replica)
        if process is None:
            self.known.add(stop.replica)
            return
        process.stopping = True
        delay_s = 0.01 if stop.kill else 1.0
        self.clock.after(delay_s, lambda: self._end_process(process))

    def _end_process(self, process: Process) -> None:
        if process.unreachable:
            process.kill_on_wake = True
        else:
            process.die()

    def slot_freed(self, process: Process) -> None:
        if self.holders.get(process.slot) == process.name:
            del self.holders[process.slot]

    def free_slots(self) -> list[Slot]:
        return [slot for slot in SLOTS if slot not in self.holders]

    def _offer(self, count: int) -> None:
        free = self.free_slots()
        self.clock.rng.shuffle(free)
        if self.clock.chance(0.3):
            count = self.clock.rng.randint(0, count)
        offer = SlotsFound(tuple(free[:count]))
        self.clock.after(self.clock.between(0.0, 0.3), lambda: self.handle(offer))

    def _end(self, end: EndJob) -> None:
        if self.ended is not None and self.ended != end:
            raise ProtocolViolation(f"the job ended twice: {self.ended} and {end}")
        self.ended = end

    # --- faults ------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        process = self.processes.get(name)
        if process is None or not process.alive:
            return
        self.clock.say("world", f"{name} is killed")
        process.die()
        self.clock.after(self.clock.between(0.01, 0.05), lambda: self.handle(From(name, Died("killed"))))

    def freeze(self, name: str, for_s: float | None, *, unreachable: bool) -> None:
        """Stop a process; ``unreachable`` (a frozen node) also keeps it from being killed meanwhile."""
        process = self.processes.get(name)
        if process is None or not process.alive or process.frozen:
            return
        self.clock.say("world", f"{name} freezes for {for_s}")
        process.frozen, process.unreachable = True, unreachable
        if for_s is not None:
            self.clock.after(for_s, lambda: self._thaw(process))

    def _thaw(self, process: Process) -> None:
        if process.alive:
            self.clock.say("world", f"{process.name} wakes")
            process.unreachable = False
            process.wake()
            if process.kill_on_wake:
                self.clock.after(self.clock.between(0.0, 0.3), process.die)

    # --- users -------------------------------------------------------------------------------

    def request(self, request: Request) -> None:
        self.clock.say("user", request)
        self.requests[request.request] = request
        self.handle(request)

    def _answered(self, answer: Answer) -> None:
        request, active = self.requests[answer.request], self.master.state.active
        if isinstance(request, Resize) and not answer.error and active and set(request.remove) & set(active.members):
            raise ProtocolViolation(f"{answer} while {request.remove} are members of {active}")
        before = self.answers.setdefault(answer.request, answer)
        if before != answer:
            raise ProtocolViolation(f"two answers to one request: {before} and {answer}")

    # --- what must always hold ---------------------------------------------------------------

    def save(self, snapshot: Snapshot) -> str:
        path = f"checkpoint-{len(self.checkpoints)}"
        self.checkpoints[path] = snapshot
        return path

    def adopted(self, process: Process, generation: Generation) -> None:
        self.clock.say(process.name, "in generation", generation.number, "at step", process.member.applied)
        self._check_lineage(process)

    def finished(self, process: Process) -> None:
        self.clock.say(process.name, f"finished at step {process.member.applied}")

    def applied(self, process: Process, generation: Generation) -> None:
        """A step was applied: its generation may do so, and everybody's states tell the same story."""
        self.clock.say(process.name, "applied step", process.member.applied, "in generation", generation.number)
        self.applied_at.append(self.clock.now)
        bounds = self.master.state.bounds
        if generation.paused or not bounds.min_replicas <= generation.world_size <= bounds.max_replicas:
            raise ProtocolViolation(f"a step with {generation.world_size} replicas")
        steps = [s.step for s in process.steps]
        if steps != list(range(1, len(steps) + 1)):
            raise ProtocolViolation(f"{process.name}: steps repeat or are missing: {steps}")
        self._check_lineage(process)

    def _check_lineage(self, process: Process) -> None:
        """Of two states of the job, one begins with the other; equally far, they are equal."""
        members = self.master.state.replicas
        for other in self.processes.values():
            if other is process or not (other.alive and other.name in members and process.name in members):
                continue
            if not (other.member.has_state and other.member.active and process.member.active):
                continue
            short, long = sorted((process, other), key=lambda s: len(s.steps))
            if short.origin != long.origin or long.steps[: len(short.steps)] != short.steps:
                raise ProtocolViolation(
                    f"two histories: {process.name} {process.snapshot()}, {other.name} {other.snapshot()}"
                )

    def _check_master(self) -> None:
        s = self.master.state
        slots = [r.slot for r in s.replicas.values()]
        if len(set(slots)) < len(slots):
            raise ProtocolViolation(f"a slot is planned twice: {s.replicas}")
        if not len(s.target) <= s.size <= s.bounds.max_replicas:
            raise ProtocolViolation(f"{s.target} planned for a size of {s.size}")
        low, high = s.bounds.min_replicas, s.bounds.max_replicas
        trains = s.phase is Phase.RUNNING and s.active is not None and not s.active.paused
        if trains and not low <= s.active.world_size <= high:
            raise ProtocolViolation(f"running with {s.active.world_size} replicas")

    # --- running -----------------------------------------------------------------------------

    def run_until(self, done: Callable[[], bool], limit_s: float) -> bool:
        """Let time pass until ``done``; False when ``limit_s`` of virtual time were not enough."""
        end_s = self.clock.now + limit_s
        while not done():
            if self.clock.now > end_s or not self.clock.step():
                return False
        return True

    def run_to_end(self, limit_s: float = 120.0) -> None:
        """Run until the job has ended and everything it held is free; check that it ended well."""
        if not self.run_until(lambda: self.ended is not None, limit_s):
            raise ProtocolViolation(f"no end after {limit_s} s; the master is {self.describe()}")
        self.run_until(lambda: not (self._leaked() or self._unanswered()), 20.0)
        self._check_end()

    def settled(self) -> bool:
        """All requests are answered, and the job trains with as many replicas as it should."""
        if self.ended is not None:
            return True
        s = self.master.state
        if not self.up or self._unanswered() or s.phase is not Phase.RUNNING or s.active is None:
            return False
        if set(s.active.members) != set(s.target) or self.master.staffing.shortage() or s.active.paused:
            return False
        alive = {p.name for p in self.processes.values() if p.alive and not p.unreachable}
        return alive == set(s.target) and not any(self.processes[r].frozen for r in s.target)

    def describe(self) -> str:
        s = self.master.state
        return f"{s.phase}, active {s.active}, pending {s.pending}, target {s.target}, requests {s.requests}"

    def _leaked(self) -> list[str]:
        return [p.name for p in self.processes.values() if p.alive and not p.unreachable]

    def _unanswered(self) -> set[str]:
        return self.requests.keys() - self.answers.keys()

    def _check_end(self) -> None:
        assert self.ended is not None
        if self._leaked():
            raise ProtocolViolation(f"replicas leaked: {self._leaked()}")
        if self._unanswered():
            raise ProtocolViolation(f"never answered: {self._unanswered()}")
        if self.ended.phase is Phase.SUCCEEDED:
            longest = max((p.snapshot() for p in self.processes.values()), key=lambda s: len(s.steps))
            if [s.step for s in longest.steps] != list(range(1, self.steps + 1)):
                raise ProtocolViolation(f"succeeded with {longest}")
