"""Warm processes on every node: PyTorch imported, no job yet, and no slot held; claimed in milliseconds.

A standby holds no resources: the slot's own placement group is reserved when a job takes it, so that a standby can
serve whichever slot of its node becomes free. On slots with a GPU Ray would have to tell it which one that is, so
there it is not used.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from raytide.actors.names import NAMESPACE, STANDBY_PREFIX
from raytide.actors.untyped import Handle, find_actor, get

logger = logging.getLogger(__name__)

LOOK_S = 0.5
QUIET_S = 5.0
"""Nobody is replaced so soon after a claim: importing PyTorch would take the cores from the job that is starting."""


class WarmPool:
    """Keeps so many standbys on each node.

    Args:
        per_node: How many.
        nodes: Ids of the nodes that have slots.
    """

    def __init__(self, per_node: int, nodes: Callable[[], Sequence[str]]) -> None:
        self._per_node = per_node
        self._nodes = nodes
        self._lock = threading.Lock()
        self._ready: dict[str, list[str]] = {}
        self._coming: dict[str, tuple[str, Any]] = {}
        self._claimed_s = 0.0

    def claim(self, node: str) -> str:
        """The name of a standby on a node, which is the caller's from now on; empty if none is ready."""
        with self._lock:
            ready = self._ready.get(node)
            self._claimed_s = time.monotonic()
            return ready.pop() if ready else ""

    def counts(self) -> Mapping[str, int]:
        """Standbys that are ready, by node."""
        with self._lock:
            return {node: len(names) for node, names in self._ready.items()}

    def run(self) -> None:
        """Fill up for ever; for a thread of its own."""
        self.end_all()  # whose scheduler is gone: nobody knows any more which of them are free
        while True:
            try:
                self._look()
            except RayError:  # the loop's edge: a node went in between
                logger.exception("standbys")
            time.sleep(LOOK_S)

    def _look(self) -> None:
        nodes = self._nodes()
        self._gather()
        with self._lock:
            for gone in self._ready.keys() - set(nodes):
                del self._ready[gone]
            coming = [node for node, _ in self._coming.values()]
            missing = [
                node
                for node in nodes
                for _ in range(self._per_node - len(self._ready.get(node, ())) - coming.count(node))
            ]
            is_quiet = time.monotonic() - self._claimed_s > QUIET_S
        for node in missing if is_quiet else ():
            self._start(node)

    def _gather(self) -> None:
        """Those that have become warm, or never will."""
        for name, (node, warm) in list(self._coming.items()):
            done, _ = ray.wait([warm], timeout=0)
            if not done:
                continue
            del self._coming[name]
            try:
                get(warm, 1.0)
            except RayError as error:
                logger.info("a standby did not come up on %s: %s", node[:8], error)
                continue
            with self._lock:
                self._ready.setdefault(node, []).append(name)

    def _start(self, node: str) -> None:
        # Replicas import PyTorch, which takes seconds; the scheduler starts without it.
        from raytide.actors.replica import ReplicaActor  # noqa: PLC0415 - as above

        name = f"{STANDBY_PREFIX}{uuid.uuid4().hex[:8]}"
        actor: Handle = ReplicaActor.options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=0,
            label_selector={"ray.io/node-id": node},
        ).remote()
        self._coming[name] = (node, actor.warm.remote())

    def end_all(self) -> None:
        """End every standby that no job has claimed."""
        for entry in ray.util.list_named_actors(all_namespaces=True):
            if entry["namespace"] == NAMESPACE and entry["name"].startswith(STANDBY_PREFIX):
                actor = find_actor(entry["name"], NAMESPACE)
                if actor is not None:
                    actor.leave_if_idle.remote()
