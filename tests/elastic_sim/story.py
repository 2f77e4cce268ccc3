"""Histories: what users want and what goes wrong, at which time or in which phase."""

from __future__ import annotations

from dataclasses import dataclass

from elastic_sim.clock import ProtocolViolation
from elastic_sim.fabric import MAIN
from elastic_sim.world import LIMITS, World
from raytide.elastic.messages import Checkpoint, Request, Resize, Resume, Stop, Suspend
from raytide.elastic.model import Bounds
from raytide.elastic.state import Phase

ENDLESS = 1 << 40
QUIET_S = 2.0
SETTLE_S = 40.0


@dataclass(frozen=True)
class Deed:
    """One thing that happens.

    Attributes:
        what: ``kill``, ``freeze``, ``glitch``, ``crash``, ``raise``, or one of the users' requests.
        at_s: When; or how long after the job first enters ``phase``.
        phase: See ``at_s``; None for a time since the start.
        who: Picks one of the replicas, or says how many.
        how: A second choice (how long a freeze lasts, how many effects of a crashed master leave).
    """

    what: str
    at_s: float
    phase: Phase | None = None
    who: int = 0
    how: int = 0


@dataclass(frozen=True)
class Story:
    """A whole history, apart from the delays (``seed``).

    Attributes:
        steps: After how many the loop ends; 0 for a job that ends some time after everything has
            settled, so that nothing is left undone only because the job was over.
        gathers: In a recovery members tell each other the results of user collectives; otherwise they
            count them, and who has more of them is the source of a transfer.
    """

    seed: int
    replicas: int
    low: int
    high: int
    deeds: tuple[Deed, ...] = ()
    steps: int = 12
    depth: int = 0
    replace_lost: bool = True
    max_failures: int = 100
    max_user_errors: int = 1
    save_fails: float = 0.0
    gathers: bool = True


class Teller:
    """Plays a story in a world."""

    def __init__(self, story: Story) -> None:
        self.story = story
        bounds = Bounds(
            story.low,
            story.high,
            story.max_failures,
            story.max_user_errors,
            story.replace_lost,
            limits=LIMITS,
        )
        self.world = World(
            story.seed,
            story.replicas,
            bounds,
            steps=story.steps or ENDLESS,
            step_s=0.05 if story.steps else 0.15,
            depth=story.depth,
        )
        self.world.save_fails, self.world.gathers = story.save_fails, story.gathers
        self._count = 0
        for deed in story.deeds:
            if deed.phase is None:
                self.world.clock.after(deed.at_s, lambda d=deed: self.do(d))
            else:
                self.world.on_phase.append((deed.phase, deed.at_s, lambda d=deed: self.do(d)))
        self.world.clock.after(1.0, self._resume_if_suspended)

    def tell(self) -> World:
        """Play it to its end; a violation carries the whole log."""
        try:
            if not self.story.steps:
                self._settle()
            self.world.run_to_end()
        except AssertionError as error:
            log = "\n".join(self.world.clock.log()[-400:])
            raise ProtocolViolation(f"{error}\n{self.story}\n{log}") from error
        return self.world

    def _settle(self) -> None:
        """Nothing happens any more: the job must come to rest, as large as it should be."""
        world = self.world
        last_s = max((d.at_s for d in self.story.deeds if d.phase is None), default=0.0)
        world.run_until(lambda: world.ended is not None, last_s + QUIET_S)
        world.on_phase.clear()
        if not world.run_until(world.settled, SETTLE_S):
            raise ProtocolViolation(f"not settled after {SETTLE_S} s; the master is {world.describe()}")
        world.steps = 3 + max((p.member.applied for p in world.processes.values()), default=0)

    # --- deeds -------------------------------------------------------------------------------

    def do(self, deed: Deed) -> None:
        world = self.world
        match deed.what:
            case "kill":
                world.kill(self._pick(deed.who))
            case "freeze":
                for_s = (0.3, 1.2, 3.0, 10.0, None, None)[deed.how % 6]
                world.freeze(self._pick(deed.who), for_s, unreachable=deed.how % 2 == 1)
            case "glitch":
                for group in world.fabric.groups.values():
                    group.glitch = group.glitch or (group.key[1] == MAIN or deed.how % 2 == 0)
            case "crash":
                if deed.how < 4:
                    world.crash_next = deed.how
                else:
                    world.crash_master((0.3, 1.0, 4.0)[deed.how % 3])
            case "raise":
                process = world.processes.get(self._pick(deed.who))
                if process is not None:
                    process.raise_at_boundary = True
            case _:
                self._request(deed)

    def _pick(self, who: int) -> str:
        alive = [p.name for p in self.world.processes.values() if p.alive and not p.frozen]
        return alive[who % len(alive)] if alive else ""

    def _request(self, deed: Deed) -> None:
        state = self.world.master.state
        self._count += 1
        name = f"{deed.what} {self._count}"
        free = [s for s in self.world.free_slots() if s not in {r.slot for r in state.replicas.values()}]
        target = state.target or ("nobody",)
        first = deed.who % len(target)
        some = tuple(target[first : first + 1 + deed.how % 2])
        requests: dict[str, Request] = {
            "scale_out": Resize(name, tuple(free[: 1 + deed.how % 3])),
            "scale_in": Resize(name, remove=some),
            "migrate": Resize(name, tuple(free[: len(some)]), some),
            "full_swap": Resize(name, tuple(free[: len(target)]), target),
            "checkpoint": Checkpoint(name),
            "suspend": Suspend(name),
            "stop": Stop(name),
        }
        self.world.request(requests[deed.what])

    def _resume_if_suspended(self) -> None:
        world, story = self.world, self.story
        if world.up and world.master.state.phase is Phase.SUSPENDED and world.clock.chance(0.5):
            self._count += 1
            free = world.free_slots()
            world.request(Resume(f"resume {self._count}", tuple(free[: max(story.low, story.replicas)])))
        if world.ended is None:
            world.clock.after(0.5, self._resume_if_suspended)
