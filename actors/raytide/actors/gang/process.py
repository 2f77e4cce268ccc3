"""The actor that owns a slot and runs one process of a rigid job in it."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import ray
from ray.exceptions import ActorDiedError, RayError
from ray.util.placement_group import remove_placement_group

from raytide.actors.gang.child import Child, Exit, Order
from raytide.actors.untyped import Handle, actor_class, get, in_group, node_address

logger = logging.getLogger(__name__)

ORPHAN_S = 120.0
"""A restarted master asks for its processes within a minute."""

PING_S = 5.0
_ANSWER_S = 10.0
_PORTS = range(20000, 32000)
"""Below those that the kernel gives to connections, so that none takes the port before rank 0 does."""


@dataclass(frozen=True)
class Place:
    """Where a process will run.

    Attributes:
        host: Address of its node.
        port: A free one there.
        cluster: Address of the Ray cluster.
    """

    host: str
    port: int
    cluster: str


class Lease:
    """Ends a process that nobody wants any more: its master says so, was ended, or has been gone for too long.

    Args:
        is_wanted: Asks the master; raises what Ray raises when it does not answer.
        orphan_s: How long it may be gone.
        clock: Seconds.
    """

    def __init__(self, is_wanted: Callable[[], bool], orphan_s: float, clock: Callable[[], float]) -> None:
        self._is_wanted = is_wanted
        self._orphan_s = orphan_s
        self._clock = clock
        self._heard_s = clock()

    def holds(self) -> bool:
        """Ask once."""
        try:
            wanted = self._is_wanted()
        except ActorDiedError as error:  # one that restarts keeps the question until it is back
            logger.warning("the master was ended: %s", error)
            return False
        except RayError as error:
            logger.warning("the master does not answer: %s", error)
            return self._clock() - self._heard_s < self._orphan_s
        self._heard_s = self._clock()
        return wanted


class GangProcess:
    """Runs one process of one attempt; it ends with this actor, and this actor's slot with its lease."""

    def __init__(self) -> None:
        self._place: Place | None = None
        self._child: Child | None = None
        self._begun = threading.Event()
        self._grace_s = 0.0

    def prepare(self, master: Handle, attempt: int) -> Place:
        """Where it is; said again, the same.

        Args:
            master: Whose process it is.
            attempt: Of the job, in which it is wanted.
        """
        if self._place is None:
            cluster = str(ray.get_runtime_context().gcs_address)
            self._place = Place(node_address(), _free_port(), cluster)
            lease = Lease(lambda: bool(get(master.wants.remote(attempt), _ANSWER_S)), ORPHAN_S, time.monotonic)
            threading.Thread(target=self._keep, args=(lease,), name="raytide-lease", daemon=True).start()
        return self._place

    def run(self, order: Order) -> int:
        """Begin; returns the process id. Said again, it changes nothing.

        Raises:
            NotStarted: It could not be begun.
        """
        if self._child is None:
            child = Child(order)
            child.start()
            self._grace_s = order.grace_s
            self._child = child
            self._begun.set()
        return self._child.pid

    @in_group("exit")
    def wait_exit(self) -> Exit:
        """Returns when the process is over; an error instead means that this actor died."""
        self._begun.wait()
        assert self._child is not None
        found = self._child.wait()
        assert found is not None
        return found

    @in_group("control")
    def end(self, grace_s: float) -> None:
        """Let the process leave within ``grace_s``, or kill it; returns at once."""
        if self._child is not None:
            self._child.end(grace_s)

    @in_group("control")
    def tail(self, lines: int) -> str:
        """The last lines of its output."""
        return "" if self._child is None else self._child.log.tail(lines)

    def _keep(self, lease: Lease) -> None:
        while lease.holds():
            time.sleep(PING_S)
        logger.warning("nobody wants this process any more")
        if self._child is not None:
            self._child.end(self._grace_s)
            self._child.wait(self._grace_s + PING_S)
        _give_up_slot()


def _give_up_slot() -> None:
    group = ray.util.get_current_placement_group()
    if group is not None:
        remove_placement_group(group)  # which ends this actor, too
    os._exit(0)


def _free_port() -> int:
    for _ in range(100):
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {_PORTS.start} and {_PORTS.stop}")


ProcessActor = actor_class(GangProcess, concurrency_groups={"control": 2, "exit": 1}, max_restarts=0)
