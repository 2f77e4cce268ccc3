"""Asks Ray's autoscaler for nodes, by placement groups that wait until the nodes are there.

Nothing ever runs in such a group. When its nodes have joined, Ray reserves it; it is removed as soon as the scheduler
sees room for the job, which then reserves each slot on its node. Nobody else hands out slots of the platform, so that
none is lost in between. Without an autoscaler the groups wait for ever, and do no harm.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import ray
from ray.exceptions import RayError
from ray.util.placement_group import placement_group, remove_placement_group

from raytide.actors.names import DEMAND_PREFIX
from raytide.actors.scheduler.demand import Demand, Needs
from raytide.actors.untyped import group_of
from raytide.core.model import JobId

logger = logging.getLogger(__name__)

LOOK_S = 0.5
HOLD_S = 5.0
"""Nodes that have come are held for the job until it is given them, at most for so long."""

SETTLE_S = 2.0
"""What is there is reserved by Ray within this, in any case: its autoscaler then counts the nodes as used just now,
and not as idle since the first of them came."""


@dataclass(frozen=True)
class Asked:
    """A group that expresses demand.

    Attributes:
        identity: Ray's id of it.
        there: Its nodes are there; it holds their slots.
    """

    identity: str
    there: bool


class Groups(Protocol):
    """Groups of the connected cluster that express demand."""

    def known(self) -> Mapping[str, Asked]:
        """Those that there are, by name."""

    def ask(self, name: str, demand: Demand) -> None:
        """Make one."""

    def withdraw(self, identity: str) -> None:
        """Remove one."""


class RayGroups:
    """See :class:`Groups`.

    Args:
        slot: Ray resources of one slot.
    """

    def __init__(self, slot: Mapping[str, float]) -> None:
        self._slot = slot

    def known(self) -> Mapping[str, Asked]:
        return {
            entry["name"]: Asked(entry["placement_group_id"], entry["state"] == "CREATED")
            for entry in ray.util.placement_group_table().values()
            if entry["name"].startswith(DEMAND_PREFIX) and entry["state"] != "REMOVED"
        }

    def ask(self, name: str, demand: Demand) -> None:
        bundles = [{key: amount * slots for key, amount in self._slot.items()} for slots in demand.processes]
        selector = {"ray.io/node-id": f"!in({','.join(demand.avoid)})"}
        selectors = [selector] * len(bundles) if demand.avoid else None
        placement_group(bundles, strategy="PACK", name=name, bundle_label_selector=selectors)

    def withdraw(self, identity: str) -> None:
        remove_placement_group(group_of(identity))


class Autoscaling:
    """Keeps what is asked for like what is needed.

    Args:
        needs: What is needed now.
        groups: Ray's.
        clock: Seconds, never going back.
    """

    def __init__(self, needs: Callable[[], Needs], groups: Groups, clock: Callable[[], float] = time.monotonic) -> None:
        self._needs = needs
        self._groups = groups
        self._clock = clock
        self._came_s: dict[str, float] = {}
        self._last_needed_s: dict[str, float] = {}

    def run(self) -> None:
        """Ask for ever; for a thread of its own."""
        while True:
            try:
                self.step()
            except RayError:  # the loop's edge: Ray is busy or its head restarts
                logger.exception("demand for nodes")
            time.sleep(LOOK_S)

    def step(self) -> None:
        """Look once. What there is to know is in Ray, so that a scheduler that starts again goes on."""
        now = self._clock()
        needs = self._needs()
        needed = {group_name(demand): demand for demand in needs.demands}
        known = self._groups.known()
        self._last_needed_s = {name: self._last_needed_s.get(name, now) for name in known} | dict.fromkeys(needed, now)
        self._came_s = {name: at_s for name, at_s in self._came_s.items() if name in known or now - at_s < 2 * HOLD_S}
        for name, asked in known.items():
            if self._is_over(now, name, asked, name in needed, job_of(name) in needs.live):
                self._groups.withdraw(asked.identity)
        for name, demand in needed.items():
            if name not in known and name not in self._came_s:
                logger.info("job %s waits for nodes: %d slots in all", demand.job, sum(demand.processes))
                self._groups.ask(name, demand)

    def _is_over(self, now: float, name: str, asked: Asked, is_needed: bool, is_live: bool) -> bool:
        """Whether a group has done what it was for, or is for nothing any more."""
        if not is_live:
            return True
        if asked.there:
            came_s = self._came_s.setdefault(name, now)
            return not is_needed or now - came_s >= HOLD_S
        return not is_needed and now - self._last_needed_s[name] >= SETTLE_S


def group_name(demand: Demand) -> str:
    """Name of the group of a demand: the same for the same one, and for no other."""
    sizes = ",".join(f"{count}x{slots}" for slots, count in sorted(Counter(demand.processes).items()))
    avoid = f":{zlib.crc32(','.join(demand.avoid).encode()):08x}" if demand.avoid else ""
    return f"{DEMAND_PREFIX}{demand.job}:{sizes}{avoid}"


def job_of(name: str) -> JobId:
    """The job of a group of this name."""
    return name.removeprefix(DEMAND_PREFIX).split(":")[0]


def withdraw_all() -> None:
    """Remove every group of the connected cluster that expresses demand."""
    groups = RayGroups({})
    for asked in groups.known().values():
        groups.withdraw(asked.identity)
