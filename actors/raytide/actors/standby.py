"""Warm replicas on free slots: processes with everything imported, and no job yet."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from raytide.actors.names import NAMESPACE
from raytide.actors.replica import ReplicaActor
from raytide.actors.slots import release
from raytide.actors.untyped import Handle, find_actor
from raytide.elastic.model import Slot

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Host:
    """A replica's process on its slot."""

    name: str
    slot: Slot
    group: PlacementGroup
    actor: Handle


def start_host(
    slot: Slot,
    group: PlacementGroup,
    resources: Mapping[str, float],
    name: str,
    runtime_env: Mapping[str, Any] | None = None,
) -> Host:
    """Start a process on a reserved slot; returns at once, while it comes up."""
    custom = {k: v for k, v in resources.items() if k not in ("CPU", "GPU")}
    actor = ReplicaActor.options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        num_cpus=resources.get("CPU", 0.0),
        num_gpus=resources.get("GPU", 0.0),
        resources=custom or None,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0),
        runtime_env=dict(runtime_env) if runtime_env else None,
    ).remote()
    return Host(name, slot, group, actor)


def warm_host(slot: Slot, group: PlacementGroup, name: str) -> Host | None:
    """The claimed standby of this name for a reserved slot; None if it is gone."""
    actor = find_actor(name, NAMESPACE)
    return None if actor is None else Host(name, slot, group, actor)


def end_host(host: Host) -> None:
    """End the process and free its slot; also works on a frozen one, whose group's removal kills it."""
    try:
        ray.kill(host.actor, no_restart=True)
    except (RayError, ValueError) as error:
        logger.info("ending %s: %s", host.slot, error)
    release(host.group)


class StandbyPool:
    """Warm hosts by slot. A standby serves one job and is replaced afterwards."""

    def __init__(self) -> None:
        self._hosts: dict[Slot, Host] = {}

    def add(self, host: Host) -> None:
        """Take in a host whose process is coming up, and warm it."""
        self._hosts[host.slot] = host
        host.actor.warm.remote()

    def slots(self) -> tuple[Slot, ...]:
        """Slots with a standby."""
        return tuple(self._hosts)

    def claim(self, slot: Slot) -> Host | None:
        """The standby of a slot, which is its no more; None where there is none."""
        return self._hosts.pop(slot, None)

    def shrink(self, count: int) -> None:
        """End those beyond ``count``."""
        for slot in list(self._hosts)[count:]:
            end_host(self._hosts.pop(slot))

    def __len__(self) -> int:
        return len(self._hosts)

    def close(self) -> None:
        """End all standbys."""
        for host in self._hosts.values():
            end_host(host)
        self._hosts.clear()
