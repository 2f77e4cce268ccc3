"""Builders and a small stage for tests of the control core: a story in, what everybody holds out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from raytide.core import Controller, ControllerConfig, Costs, JobSpec, Node, Role, TenantTree
from raytide.core.commands import Command
from raytide.core.events import Event, Finished, Submitted, Timer
from raytide.core.policy import Policy
from raytide.policies.placement import Count
from raytide.policies.pollux import Pollux
from raytide.policies.registry import make_policy

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"


def trace_file(name: str) -> Path:
    """A file of the public traces beside the checkout; skips the test where they are not."""
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the public traces are not beside this checkout ({name}); see docs/traces.md for where they are")
    return path


def nodes(*gpus: int) -> list[Node]:
    """Nodes ``n0``, ``n1``, ... with so many GPUs."""
    return [Node(f"n{i}", count) for i, count in enumerate(gpus)]


def job(name: str, gpus: int = 1, *, at: float = 0.0, tenant: str = "t", **more: Any) -> JobSpec:
    """A rigid job, or an elastic one with ``to``: the most replicas."""
    most = more.pop("to", gpus)
    return JobSpec(name, tenant, at, (Role("replica", gpus, most),), more.pop("requested", gpus), **more)


def quick_policy(name: str) -> Policy:
    """A policy by name; one that searches does so briefly and rarely, where it matters not how good its finds are."""
    return Pollux(candidates=8, generations=2, round_s=300.0) if name == "pollux" else make_policy(name)


class Stage:
    """A controller with instant changes, and the time.

    Args:
        policy: Who decides.
        gpus: Nodes of the cluster.
        options: ``placer``, ``tenants``, ``speeds``, ``costs``.
    """

    def __init__(self, policy: Policy, *gpus: int, **options: Any) -> None:
        speeds, costs = options.pop("speeds", {}), options.pop("costs", Costs())
        config = ControllerConfig(instant=True, speeds=speeds, costs=costs)
        placer, tenants = options.pop("placer", Count()), options.pop("tenants", TenantTree())
        assert not options, options
        self.controller = Controller(policy, placer, nodes(*gpus), tenants, config)
        self.wake_s: float | None = None

    def at(self, now: float, *happened: Event | JobSpec | str) -> list[Command]:
        """One instant: events, jobs that are submitted, and names of jobs that finish."""
        commands = self.controller.tick(now, [_event(what) for what in happened] or [Timer()])
        self.controller.validate()
        self.wake_s = next((c.at_s for c in commands if hasattr(c, "at_s")), self.wake_s)
        return commands

    def held(self) -> dict[str, int]:
        """GPUs by job, of those that hold any."""
        return {name: record.gpus for name, record in self.controller.table.holding.items()}

    def state(self, name: str) -> str:
        return str(self.controller.table[name].state)


def _event(what: Event | JobSpec | str) -> Event:
    if isinstance(what, JobSpec):
        return Submitted(what)
    if isinstance(what, str):
        return Finished(what)
    return what


def play(stage: Stage, story: Iterable[tuple[float, Sequence[Event | JobSpec | str], dict[str, int]]]) -> None:
    """Each row of a story: when, what happens, and who holds how many GPUs afterwards."""
    for now, happened, expected in story:
        stage.at(now, *happened)
        assert stage.held() == expected, f"at {now}"
