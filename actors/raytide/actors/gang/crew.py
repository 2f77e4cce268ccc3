"""Slots and processes of a rigid job on Ray: reserved, started, watched, ended.

Names make it repeatable: a restarted master finds what the one before has reserved and started.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError, RuntimeEnvSetupError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from raytide.actors.gang.child import Exit, NotStarted, Order
from raytide.actors.gang.layout import driver_environment, gang_environment, grant_of, job_environment
from raytide.actors.gang.machine import START_S
from raytide.actors.gang.process import Place, ProcessActor
from raytide.actors.gang.settings import DRIVER, RigidSettings
from raytide.actors.gang.state import NODE, USER, Event, Exited, Lost, Up
from raytide.actors.names import NAMESPACE
from raytide.actors.slots import RESERVE_TIMEOUT_S, cluster_view, group_name, reserve, sweep
from raytide.actors.untyped import Handle, get
from raytide.elastic.model import Slot
from raytide.errors import RequestRefused

logger = logging.getLogger(__name__)

FREE_S = 30.0
"""Workers of a driver end with it, and reservations with their removal, within seconds."""

_LOOK_S = 0.1
_ANSWER_S = 10.0
_UNREACHABLE_RETRY_S = 0.2


class Crew:
    """The processes of one rigid job.

    Args:
        job: Its name.
        settings: The job.
        master: Its master's actor, for processes to ask.
        say: Takes what happens to them.
    """

    def __init__(self, job: str, settings: RigidSettings, master: Handle, say: Callable[[Event], None]) -> None:
        self._job = job
        self._settings = settings
        self._master = master
        self._say = say
        self._is_driver = settings.launch == DRIVER
        self._watched: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    # --- slots -------------------------------------------------------------------------------

    def reserve(self, slots: Sequence[Slot]) -> None:
        """Reserve all ``slots``, or none. A driver reserves for itself: its slots only have to be free.

        Raises:
            RequestRefused: One of them is not free.
        """
        if self._is_driver:
            if not self._wait_free(slots, RESERVE_TIMEOUT_S):
                raise RequestRefused(f"job {self._job}: its {len(slots)} slots are not free: {self._free_text()}")
            return
        try:
            reserve(slots, self._settings.resources, self._job)
        except BaseException:
            sweep(self._job, ())
            raise

    def _free_text(self) -> str:
        return ", ".join(f"{v.name}: {v.free} of {v.total} free" for v in cluster_view(self._settings.resources))

    def _wait_free(self, slots: Sequence[Slot], timeout_s: float) -> bool:
        """Whether the slots are free, or become so; those of a lost node are nobody's."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            free = {view.node: view.free for view in cluster_view(self._settings.resources)}
            if all(free.get(node, 0) >= count for node, count in grant_of(slots).items()):
                return True
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_S)

    def release(self, slots: Sequence[Slot]) -> None:
        """End what is left, give back every slot, and wait until others can have them."""
        self._end_actors(keep_attempt=0)
        sweep(self._job, ())
        nodes = {view.node for view in cluster_view(self._settings.resources)}
        if not self._wait_free([slot for slot in slots if slot.node in nodes], FREE_S):
            logger.warning("job %s: slots are not free after %.0f s: %s", self._job, FREE_S, self._free_text())

    # --- processes ---------------------------------------------------------------------------

    def launch(self, attempt: int, slots: Sequence[Slot]) -> None:
        """Start what is not there of an attempt; none begins before all are there.

        What becomes of each process is said, not raised.
        """
        self._end_actors(keep_attempt=attempt)
        try:
            actors = [self._actor(attempt, rank, slots) for rank in range(1 if self._is_driver else len(slots))]
            for rank, actor in enumerate(actors):
                self._watch(attempt, rank, actor)
            prepared = [actor.prepare.remote(self._master, attempt) for actor in actors]
            places: list[Place] = [get(answer, START_S) for answer in prepared]
            orders = [self._order(rank, slots, places[0], attempt) for rank in range(len(actors))]
            begun = [actor.run.remote(order) for actor, order in zip(actors, orders, strict=True)]
            for rank, answer in enumerate(begun):
                self._say(Up(attempt, rank, get(answer, START_S)))
        except GetTimeoutError:
            logger.warning("job %s: attempt %d does not come up", self._job, attempt)
        except NotStarted as error:
            self._say(Lost(attempt, 0, str(error), USER))
        except RayError as error:
            logger.info("job %s: attempt %d: %s", self._job, attempt, error)  # who died is told by its watch
        except Exception as error:  # a thread's edge: the job must hear of it; Ray refuses bad settings so
            logger.exception("job %s: attempt %d", self._job, attempt)
            self._say(Lost(attempt, 0, str(error) or repr(error), USER))

    def _order(self, rank: int, slots: Sequence[Slot], first: Place, attempt: int) -> Order:
        settings = self._settings
        variables = job_environment(self._job, settings.storage, resumed=attempt > 1)
        if self._is_driver:
            variables |= driver_environment(slots, first.cluster, settings.runtime_env)
        else:
            variables |= gang_environment(slots, rank, first.host, first.port)
        return Order(settings.entrypoint, variables, settings.storage, f"rank-{rank}.log", settings.grace_s)

    def _actor(self, attempt: int, rank: int, slots: Sequence[Slot]) -> Handle:
        runtime_env = dict(self._settings.runtime_env) or None
        slot = slots[rank]
        placed = self._pinned(slot) if self._is_driver else self._grouped(slot, self._settings.resources)
        return ProcessActor.options(
            name=self._name(attempt, rank),
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            runtime_env=runtime_env,
            **placed,
        ).remote()

    @staticmethod
    def _pinned(slot: Slot) -> dict[str, Any]:
        return {"num_cpus": 0, "label_selector": {"ray.io/node-id": slot.node}}

    def _grouped(self, slot: Slot, resources: Mapping[str, float]) -> dict[str, Any]:
        group = ray.util.get_placement_group(group_name(self._job, slot))
        return {
            "num_cpus": resources.get("CPU", 0.0),
            "num_gpus": resources.get("GPU", 0.0),
            "resources": {k: v for k, v in resources.items() if k not in ("CPU", "GPU")} or None,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(group, 0),
        }

    def readopt(self, attempt: int, rank: int) -> None:
        """Watch a process again that a master before this one has started."""
        actor = self._known(attempt, rank)
        if actor is None:
            self._say(Lost(attempt, rank, "its process was gone when the master restarted"))
        else:
            self._watch(attempt, rank, actor)

    def _watch(self, attempt: int, rank: int, actor: Handle) -> None:
        with self._lock:
            if (attempt, rank) in self._watched:
                return
            self._watched.add((attempt, rank))
        name = f"raytide-watch-{rank}"
        threading.Thread(target=self._wait_exit, args=(attempt, rank, actor), name=name, daemon=True).start()

    def _wait_exit(self, attempt: int, rank: int, actor: Handle) -> None:
        """Runs in a thread per process: a killed actor is known here within about 20 ms."""
        while True:
            try:
                found: Exit = get(actor.wait_exit.remote())
                self._say(Exited(attempt, rank, found.code, found.told, found.tail))
                return
            except ActorUnavailableError:
                time.sleep(_UNREACHABLE_RETRY_S)  # not dead yet, as far as Ray knows
            except RayError as error:
                fault = USER if isinstance(error, RuntimeEnvSetupError) else NODE
                self._say(Lost(attempt, rank, _cause_of(error), fault))
                return

    def end(self, attempt: int, rank: int) -> None:
        """Let a process save and leave; returns at once."""
        actor = self._known(attempt, rank)
        if actor is not None:
            actor.end.remote(self._settings.grace_s)

    def kill(self, attempt: int, rank: int) -> None:
        """End a process at once."""
        actor = self._known(attempt, rank)
        if actor is None:
            self._say(Lost(attempt, rank, "it was never started"))
        else:
            _kill(actor)

    def tail(self, attempt: int, rank: int, lines: int) -> str | None:
        """The last lines of what a process has written; None if it cannot be asked."""
        actor = self._known(attempt, rank)
        if actor is None:
            return None
        try:
            text: str = get(actor.tail.remote(lines), _ANSWER_S)
        except RayError:
            return None
        return text

    # --- names -------------------------------------------------------------------------------

    def _prefix(self) -> str:
        return f"process:{self._job}:"

    def _name(self, attempt: int, rank: int) -> str:
        return f"{self._prefix()}{attempt}:{rank}"

    def _known(self, attempt: int, rank: int) -> Handle | None:
        try:
            return ray.get_actor(self._name(attempt, rank), namespace=NAMESPACE)
        except ValueError:
            return None

    def _end_actors(self, keep_attempt: int) -> None:
        """End every process of this job, of whatever run, that is not of this attempt."""
        for entry in ray.util.list_named_actors(all_namespaces=True):
            name, namespace = entry["name"], entry["namespace"]
            kept = f"{self._prefix()}{keep_attempt}:"
            if namespace != NAMESPACE or not name.startswith(self._prefix()) or name.startswith(kept):
                continue
            with contextlib.suppress(ValueError):  # it ended meanwhile
                _kill(ray.get_actor(name, namespace=NAMESPACE))


def _kill(actor: Handle) -> None:
    try:
        ray.kill(actor, no_restart=True)
    except (RayError, ValueError) as error:
        logger.info("ending a process: %s", error)


def _cause_of(error: RayError) -> str:
    text = str(error).strip()
    wanted = [line for line in text.splitlines() if "exit" in line.lower() or "died" in line.lower()]
    return (wanted or [text])[0].strip()[:300]
