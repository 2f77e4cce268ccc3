"""The processes of one job: reserved, started, watched and ended.

Names make it repeatable: a restarted master finds the hosts and reservations of the one before.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup

from raytide.actors.names import NAMESPACE
from raytide.actors.replica import Assignment
from raytide.actors.slots import NodeView, choose_slots, cluster_view, group_name, release, reserve, sweep
from raytide.actors.standby import Host, StandbyPool, end_host, start_host, warm_host
from raytide.actors.untyped import Handle, get
from raytide.elastic.messages import Died, FromReplica, LoopRaised, ToReplica
from raytide.elastic.model import ReplicaId, Slot
from raytide.errors import RequestRefused

logger = logging.getLogger(__name__)

EXIT_GRACE_S = 20.0
"""A released replica finishes its step and its checkpoint within this, or is killed."""

SETTLE_S = 2.0
"""Ray's nodes report what is free about ten times a second; a busy machine takes longer."""

_UNREACHABLE_RETRY_S = 0.2


@dataclass(frozen=True)
class Found:
    """What a journal says of one host.

    Attributes:
        actor_name: Its actor's name, empty if it was not started before the journal was written.
        talked: Its replica has said something.
    """

    slot: Slot
    actor_name: str
    talked: bool


class Hosts:
    """Hosts of one job.

    Args:
        job: Its name.
        resources: Ray resources of one slot.
        say: Gives a message on behalf of a replica to the master.
        limits: Slots it may hold on each node; None for whatever is free.
        runtime_env: Ray's, for its processes.
        claim: Gives the name of a warm process on a node, or an empty one; None where there are none.
    """

    def __init__(
        self,
        job: str,
        resources: dict[str, float],
        say: Callable[[ReplicaId, FromReplica], None],
        limits: Mapping[str, int] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        claim: Callable[[str], str] | None = None,
    ) -> None:
        self._runtime_env = runtime_env
        self._claim = claim
        self._job = job
        self._resources = resources
        self._say = say
        self._limits = limits
        self._lock = threading.RLock()
        self._hosts: dict[ReplicaId, Host] = {}
        self._pids: dict[ReplicaId, int] = {}
        self._reserved: dict[Slot, PlacementGroup] = {}
        self._standbys = StandbyPool()
        self._promised: dict[Slot, Host] = {}
        self._warming = threading.Lock()
        self._closed = False

    # --- slots -------------------------------------------------------------------------------

    def limit(self, slots: Mapping[str, int]) -> None:
        """Hold at most so many slots on each node from now on; what is held already stays."""
        with self._lock:
            self._limits = dict(slots)

    @property
    def limits(self) -> Mapping[str, int]:
        """Slots it may hold on each node; none where nobody has said."""
        return self._limits or {}

    def nodes(self) -> tuple[NodeView, ...]:
        """The cluster's nodes; slots of standbys count as free."""
        with self._lock:
            warm = [slot.node for slot in self._standbys.slots()]
        return tuple(
            NodeView(v.node, v.name, v.total, v.free + warm.count(v.node)) for v in cluster_view(self._resources)
        )

    def held(self) -> list[Slot]:
        """Slots this job holds."""
        with self._lock:
            return [*(host.slot for host in self._hosts.values()), *self._reserved, *self._promised]

    def find(self, count: int, *, node: str | None = None, least: int = 0) -> tuple[Slot, ...]:
        """Reserve up to ``count`` free slots, warm ones first; on ``node`` only, if given.

        Returns:
            The slots; none, if there are fewer than ``least``. It waits a moment for these: Ray's view shows
            late what was given back just now.
        """
        deadline_s = time.monotonic() + SETTLE_S
        while True:
            with self._lock:
                warm, cold = self._choose(count, node)
                enough = len(warm) + len(cold) >= least
                if enough:
                    self._take(warm, cold)
                    return (*warm, *cold)
            if self._closed or time.monotonic() > deadline_s:
                return ()
            time.sleep(SETTLE_S / 10)

    def _choose(self, count: int, node: str | None) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """Warm and cold slots for ``count`` replicas; nothing is reserved yet."""
        if self._closed:
            return (), ()
        warm = tuple(slot for slot in self._standbys.slots() if node in (None, slot.node))[:count]
        views = [self._limited(view) for view in cluster_view(self._resources) if node in (None, view.node)]
        return warm, choose_slots(count - len(warm), views, [*self.held(), *self._standbys.slots()])

    def _limited(self, view: NodeView) -> NodeView:
        """What is free for this job. What it was granted is reserved whatever Ray's figures say: they are late."""
        if self._limits is None:
            return view
        mine = sum(1 for slot in self.held() if slot.node == view.node)
        return replace(view, free=max(0, self._limits.get(view.node, 0) - mine))

    def _take(self, warm: Sequence[Slot], cold: Sequence[Slot]) -> None:
        self._reserved.update(reserve(cold, self._resources, self._job))
        for slot in warm:
            host = self._standbys.claim(slot)
            assert host is not None
            self._promised[slot] = host

    def give_back(self, slots: Sequence[Slot]) -> None:
        """Release those of ``slots`` that nothing was started on."""
        if not slots:
            return  # the usual case, and the lock may be held for seconds while Ray reserves
        with self._lock:
            groups = [self._reserved.pop(slot) for slot in slots if slot in self._reserved]
            for host in [self._promised.pop(slot) for slot in slots if slot in self._promised]:
                self._standbys.add(host)
        for group in groups:
            release(group)

    # --- standbys ----------------------------------------------------------------------------

    def keep_warm(self, count: int) -> None:
        """Have ``count`` standbys, as far as there are free slots. Does nothing while an earlier call is at it."""
        if not self._warming.acquire(blocking=False):
            return
        try:
            self._fill_pool(count)
        finally:
            self._warming.release()

    def _fill_pool(self, count: int) -> None:
        with self._lock:
            self._standbys.shrink(count)
            missing = count - len(self._standbys)
            if missing <= 0 or self._closed:
                return
            held = [*self.held(), *self._standbys.slots()]
            slots = choose_slots(missing, cluster_view(self._resources), held)
            try:
                groups = reserve(slots, self._resources, self._job)
            except RequestRefused as error:
                logger.info("no standby: %s", error)
                return
            for slot, group in groups.items():
                name = f"replica:{self._job}:standby-{uuid.uuid4().hex[:8]}"
                self._standbys.add(start_host(slot, group, self._resources, name, self._runtime_env))

    # --- hosts -------------------------------------------------------------------------------

    def start(self, replica: ReplicaId, slot: Slot, assignment: Assignment, master: Handle) -> None:
        """Start ``replica`` on ``slot``: on its standby, if there is one. Repeating it changes nothing."""
        with self._lock:
            if replica in self._hosts or self._closed:
                return
            try:
                host = self._promised.pop(slot, None) or self._new_host(replica, slot)
            except Exception as error:  # a thread's edge: whatever it was, the master must hear of it
                logger.exception("starting %s", replica)
                self._say(replica, Died(f"could not be started: {error}"))
                return
            self._hosts[replica] = host
        assigned: Any = host.actor.assign.remote(assignment, master)
        self._watch(replica, host, assigned)

    def _new_host(self, replica: ReplicaId, slot: Slot) -> Host:
        group = self._reserved.pop(slot, None) or self._group_of(slot)
        try:
            name = self._claim(slot.node) if self._claim is not None else ""
            warm = warm_host(slot, group, name) if name else None
            return warm or start_host(slot, group, self._resources, self._actor_name(replica), self._runtime_env)
        except BaseException:
            release(group)
            raise

    def _group_of(self, slot: Slot) -> PlacementGroup:
        """The slot's group that a lost master reserved, or a new one."""
        try:
            known: PlacementGroup = ray.util.get_placement_group(group_name(self._job, slot))
        except ValueError:
            return reserve([slot], self._resources, self._job)[slot]
        return known

    def names(self) -> dict[ReplicaId, str]:
        """Actor names of the hosts, for :meth:`readopt`."""
        with self._lock:
            return {replica: host.name for replica, host in self._hosts.items()}

    def pid(self, replica: ReplicaId) -> int:
        """The replica's process; 0 while it comes up."""
        return self._pids.get(replica, 0)

    def readopt(self, replica: ReplicaId, found: Found, assignment: Assignment, master: Handle) -> None:
        """After a restart of the master: watch a running host again, or start what was never started.

        The work is assigned again, because the lost master may have died in between; a replica takes it once.
        """
        try:
            actor = ray.get_actor(found.actor_name or self._actor_name(replica), namespace=NAMESPACE)
            group = ray.util.get_placement_group(group_name(self._job, found.slot))
        except ValueError:
            if found.talked:
                self._say(replica, Died("its process was gone when the master restarted"))
            else:
                self.start(replica, found.slot, assignment, master)
            return
        host = Host(found.actor_name or self._actor_name(replica), found.slot, group, actor)
        with self._lock:
            self._hosts[replica] = host
        self._watch(replica, host, actor.assign.remote(assignment, master))

    def sweep(self) -> None:
        """Release the slots of this job that no host of it holds: a lost master left them."""
        sweep(self._job, [host.slot for host in self._hosts.values()])

    def _actor_name(self, replica: ReplicaId) -> str:
        return f"replica:{self._job}:{replica}"

    def _watch(self, replica: ReplicaId, host: Host, assigned: Any) -> None:
        name = f"raytide-watch-{replica}"
        threading.Thread(target=self._wait_exit, args=(replica, host, assigned), name=name, daemon=True).start()

    def _wait_exit(self, replica: ReplicaId, host: Host, assigned: Any) -> None:
        """Runs in a thread per replica: a killed process is known here within about 20 ms."""
        while True:
            try:
                self._pids[replica] = get(assigned)
                get(host.actor.wait_exit.remote())
                break
            except ActorUnavailableError:
                time.sleep(_UNREACHABLE_RETRY_S)  # not dead yet, as far as Ray knows
            except RayTaskError as error:
                self._say(replica, LoopRaised(str(error)))
                break
            except RayError as error:
                self._say(replica, Died(_cause_of(error)))
                break
        with self._lock:
            mine = self._hosts.pop(replica, None)
            self._pids.pop(replica, None)
        if mine is not None:
            end_host(mine)

    def tell(self, replica: ReplicaId, message: ToReplica) -> None:
        """Send a message; nothing is said if the replica is gone."""
        host = self._hosts.get(replica)
        if host is not None:
            host.actor.deliver.remote(message)

    def stop(self, replica: ReplicaId, *, kill: bool) -> None:
        """End a replica: at once, or when it has listened to its release."""
        if kill:
            with self._lock:
                host = self._hosts.pop(replica, None)
            if host is not None:
                end_host(host)
            return
        timer = threading.Timer(EXIT_GRACE_S, self.stop, args=(replica,), kwargs={"kill": True})
        timer.daemon = True
        timer.start()

    def close(self, grace_s: float) -> None:
        """End everything; released replicas have ``grace_s`` to leave by themselves."""
        self._closed = True
        deadline_s = time.monotonic() + grace_s
        while self._hosts and time.monotonic() < deadline_s:
            time.sleep(0.02)
        with self._lock:
            hosts, self._hosts = list(self._hosts.values()), {}
        for host in hosts:
            end_host(host)
        self._standbys.close()
        self.sweep()  # what was reserved or claimed, and not started on


def _cause_of(error: RayError) -> str:
    text = str(error).strip()
    wanted = [line for line in text.splitlines() if "exit" in line.lower() or "died" in line.lower()]
    return (wanted or [text])[0].strip()[:300]
