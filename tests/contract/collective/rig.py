"""Worker processes that live for a whole suite and run one action after the other.

An action is a module-level function ``action(state, *arguments)``; its result or exception comes back by
pickle.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch

from raytide.collective import Group, GroupSpec, StoreServer, connect
from raytide.collective.nccl_open import unavailable_reason

LIMIT_S = 60.0


@dataclass
class State:
    """What a worker keeps between actions."""

    device: torch.device
    groups: dict[str, Group] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)


class Worker:
    """One process, seen from the suite."""

    def __init__(self, index: int, backend: str) -> None:
        # Forked from a process that has imported torch and nothing else: as clean as spawn, without its wait.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch"])
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, index, backend), daemon=True)
        self.process.start()
        theirs.close()

    def start(self, action: Callable[..., Any], *arguments: Any) -> None:
        self._pipe.send((action, arguments))

    def result(self, limit_s: float = LIMIT_S) -> Any:
        if not self._pipe.poll(limit_s):
            raise TimeoutError(f"worker {self.process.name} did not answer within {limit_s:g} s")
        ok, value = self._pipe.recv()
        if not ok:
            raise value
        return value

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self._pipe.close()


class Rig:
    """Workers, a store and fresh group names for one backend."""

    def __init__(self, backend: str, workers: int = 4) -> None:
        self.backend = backend
        self.store = StoreServer()
        self.workers = [Worker(index, backend) for index in range(workers)]
        self._names = itertools.count(1)

    def name(self) -> str:
        return f"job/{next(self._names)}"

    def spec(self, name: str, rank: int, world_size: int, **options: Any) -> GroupSpec:
        return GroupSpec(name, rank, world_size, self.store.address, backend=self.backend, **options)

    def connect(self, members: Sequence[int], **options: Any) -> str:
        """Connects the workers ``members``, in this rank order; returns the group's name."""
        name = self.name()
        specs = [self.spec(name, rank, len(members), **options) for rank in range(len(members))]
        self.call(members, join, per_member=[(spec,) for spec in specs])
        return name

    def call(
        self,
        members: Sequence[int],
        action: Callable[..., Any],
        *arguments: Any,
        per_member: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Runs an action in several workers at the same time; results in the order of ``members``."""
        self.start(members, action, *arguments, per_member=per_member)
        return self.results(members)

    def start(
        self,
        members: Sequence[int],
        action: Callable[..., Any],
        *arguments: Any,
        per_member: Sequence[tuple[Any, ...]] | None = None,
    ) -> None:
        for place, member in enumerate(members):
            extra = () if per_member is None else per_member[place]
            self.workers[member].start(action, *arguments, *extra)

    def results(self, members: Sequence[int]) -> list[Any]:
        return [self.workers[member].result() for member in members]

    def replace(self, member: int) -> None:
        """Kills a worker, in whatever state it is, and starts a new one in its place."""
        self.workers[member].end()
        self.workers[member] = Worker(member, self.backend)

    def close(self) -> None:
        for worker in self.workers:
            worker.signal(signal.SIGCONT)
            worker.end()
        self.store.close()


def serve(pipe: Connection, index: int, backend: str) -> None:
    """The worker process."""
    torch.set_num_threads(1)
    os.environ.update(rank_environment(index, backend))
    state = State(torch.device("cuda", 0) if backend == "nccl" else torch.device("cpu"))
    while True:
        try:
            action, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = (True, action(state, *arguments))
        except Exception as error:  # noqa: BLE001 - the suite raises it
            answer = (False, error)
        pipe.send(answer)


def rank_environment(index: int, backend: str) -> dict[str, str]:
    """What NCCL needs so that several ranks may share one GPU."""
    if backend != "nccl":
        return {}
    version = torch.cuda.nccl.version()
    if tuple(version) >= (2, 30):
        return {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    return {"NCCL_HOSTID": f"rank-{index}"}


def why_not(backend: str) -> str:
    """Why a backend cannot be tested on this machine, or ``""``."""
    return unavailable_reason() if backend == "nccl" else ""


def join(state: State, spec: GroupSpec) -> None:
    """Action: connects and keeps the group."""
    state.groups[spec.name] = connect(spec)
