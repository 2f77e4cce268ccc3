"""The actor that owns a slot and hosts one training process.

It starts without knowing a job (torch imported, device context made), serves one, and dies with it.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from typing import Any

import ray
import torch
from ray import cloudpickle
from ray.exceptions import RayError
from ray.util.placement_group import remove_placement_group

from raytide.actors.runtime import Loop, ReplicaRuntime, Work
from raytide.actors.untyped import Handle, actor_class, get, in_group
from raytide.elastic.messages import FromReplica, Heartbeat, ToReplica
from raytide.train.membership import Wiring
from raytide.train.services import Report, SessionSpec

logger = logging.getLogger(__name__)

ORPHAN_S = 120.0
"""A master ends a replica whose loop is over within seconds, a restarted one within a minute."""

_HEARTBEAT_ANSWER_S = 5.0


@dataclass(frozen=True)
class Assignment:
    """A job's work for one replica, as it travels.

    Attributes:
        spec: Its part in the job.
        wiring: How groups connect.
        loop: The pickled loop; opened in the replica only.
        config: The pickled argument of the loop.
        use_gpu: Train on the GPU of this slot.
        heartbeat_s: How often to report.
        start_delay_s: Wait before the loop starts, for tests of slow starts.
    """

    spec: SessionSpec
    wiring: Wiring
    loop: bytes
    config: bytes
    use_gpu: bool
    heartbeat_s: float
    start_delay_s: float = 0.0


class MasterOutbox:
    """Sends a replica's messages to its master's actor.

    Messages wait in Ray while the master restarts; an answered heartbeat renews the lease.
    """

    def __init__(self, replica: str, master: Handle, on_answer: Any) -> None:
        self._replica = replica
        self._master = master
        self._on_answer = on_answer

    def send(self, message: FromReplica) -> None:
        """Give one message to the master; a heartbeat waits for the answer, nothing else does."""
        answer: Any = self._master.deliver.remote(self._replica, message)
        if isinstance(message, Heartbeat):
            try:
                get(answer, _HEARTBEAT_ANSWER_S)
                self._on_answer()
            except RayError as error:
                logger.warning("the master does not answer: %s", error)

    def report(self, report: Report) -> None:
        """Give metrics to the master."""
        self._master.report.remote(self._replica, report)


class Replica:
    """Hosts one replica of one job."""

    def __init__(self) -> None:
        self._runtime: ReplicaRuntime | None = None
        self._exit = threading.Event()
        self._reason = ""

    def warm(self) -> int:
        """Make the device context; returns the process id."""
        if torch.cuda.is_available():
            torch.cuda.init()
        _rehearse()
        return os.getpid()

    @in_group("control")
    def leave_if_idle(self) -> None:
        """End this process unless it has a job: nobody will give it one."""
        if self._runtime is None:
            os._exit(0)

    def assign(self, assignment: Assignment, master: Handle) -> int:
        """Take on a job; returns the process id. Said again by a restarted master, it changes nothing."""
        if self._runtime is not None:
            return os.getpid()
        device = torch.device("cuda", 0) if assignment.use_gpu else torch.device("cpu")
        spec = assignment.spec.on(device)
        outbox = MasterOutbox(spec.replica, master, lambda: self._heard())
        work = Work(
            spec,
            assignment.wiring,
            lambda: _load_loop(assignment.loop),
            cloudpickle.loads(assignment.config),
            assignment.heartbeat_s,
            assignment.start_delay_s,
        )
        self._runtime = ReplicaRuntime(work, outbox, self._on_exit)
        self._runtime.start()
        return os.getpid()

    def _heard(self) -> None:
        if self._runtime is not None:
            self._runtime.membership.master_heard()

    def _on_exit(self, reason: str) -> None:
        self._reason = reason
        self._exit.set()
        orphan = threading.Timer(ORPHAN_S, _give_up_slot)
        orphan.daemon = True
        orphan.start()

    @in_group("control")
    def deliver(self, message: ToReplica) -> None:
        """Take a message of the master; in order, and beside everything else."""
        if self._runtime is not None:
            self._runtime.deliver(message)

    @in_group("exit")
    def wait_exit(self) -> str:
        """Returns when the loop is over; an error instead means that the process died."""
        self._exit.wait()
        return self._reason


def _rehearse() -> None:
    """One step of the smallest training there is: the first one in a process imports and starts what takes seconds."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model(torch.zeros(1, 1)).sum().backward()
    optimizer.step()


def _give_up_slot() -> None:
    """Nobody has ended this process although its loop is over: the master is gone for good, and the slot is free."""
    group = ray.util.get_current_placement_group()
    if group is not None:
        remove_placement_group(group)  # which ends this process, too
    os._exit(0)


def _load_loop(pickled: bytes) -> Loop:
    loop: Loop = cloudpickle.loads(pickled)
    return loop


ReplicaActor = actor_class(Replica, concurrency_groups={"control": 1, "exit": 1}, max_restarts=0)
