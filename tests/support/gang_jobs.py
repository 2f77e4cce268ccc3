"""Rigid jobs on the shared test cluster, with a scheduler that only listens."""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import ActorDiedError

from raytide.actors.calls import unwrap
from raytide.actors.gang.master import GangActor
from raytide.actors.gang.settings import RigidSettings
from raytide.actors.names import NAMESPACE, SCHEDULER, master_name
from raytide.actors.status import JobStatus
from raytide.actors.untyped import nodes
from raytide.actors.views import JobView
from support.ray_jobs import held_slots

WAIT_S = 90.0
"""Ray Train imports much in each of its processes."""


class Listener:
    """Collects what masters tell their scheduler."""

    def __init__(self) -> None:
        self._told: list[JobStatus] = []

    def status(self, status: JobStatus) -> None:
        """A master tells."""
        self._told.append(status)

    def told(self, job: str) -> list[JobStatus]:
        """What was told of a job."""
        return [status for status in self._told if status.job == job]


@contextmanager
def listening() -> Iterator[Any]:
    """An actor under the scheduler's name."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    actor = ray.remote(num_cpus=0)(Listener).options(name=SCHEDULER, namespace=NAMESPACE).remote()
    ray.get(actor.told.remote(""))
    try:
        yield actor
    finally:
        ray.kill(actor)


def node_ids() -> dict[str, str]:
    """Ids of the living nodes by name."""
    return {node["Labels"]["raytide.node"]: node["NodeID"] for node in nodes() if node["Alive"]}


@dataclass(frozen=True)
class Rigid:
    """A rigid job and the listener that hears of it."""

    name: str
    master: Any
    scheduler: Any
    folder: Path

    def call(self, method: str, *arguments: Any, timeout_s: float = WAIT_S) -> Any:
        """Call its master; errors come out as themselves."""
        return unwrap(getattr(self.master, method).remote(*arguments), timeout_s)

    def start(self, request: str = "s1", **grant: int) -> None:
        """Start it; nodes by name, ``a=1, b=1``."""
        known = node_ids()
        self.call("start_on", request, {known[f"node-{name}"]: count for name, count in grant.items()})

    def view(self) -> JobView:
        """As it stands."""
        view: JobView = self.call("view")
        return view

    def wait(self, condition: Callable[[JobView], bool], what: str) -> JobView:
        """Poll until ``condition`` holds; fails with the job's story."""
        deadline_s = time.monotonic() + WAIT_S
        while True:
            view = self.view()
            if condition(view):
                return view
            if view.ended or time.monotonic() > deadline_s:
                raise AssertionError(f"waited for {what}: {view}\n{self.logs()}")
            time.sleep(0.05)

    def wait_phase(self, phase: str) -> JobView:
        """Wait until it is there."""
        return self.wait(lambda view: view.phase == phase, phase)

    def wait_file(self, name: str) -> str:
        """Wait until a process has written a file; its text."""
        path = self.folder / name
        self.wait(lambda view: path.exists() and path.read_text() != "", name)
        return path.read_text()

    def logs(self) -> str:
        """Everything its processes have written."""
        return "\n".join(f"{p.name}:\n{p.read_text()}" for p in sorted(self.folder.glob("job/logs/*")))

    def told(self) -> list[JobStatus]:
        """What the scheduler was told."""
        found: list[JobStatus] = ray.get(self.scheduler.told.remote(self.name))
        return found

    def wait_told(self, phase: str) -> JobStatus:
        """Wait until the scheduler was told of a phase."""
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            for status in self.told():
                if status.phase == phase:
                    return status
            time.sleep(0.05)
        raise AssertionError(f"nobody told of {phase}: {self.told()}")


@contextmanager
def rigid(scheduler: Any, folder: Path, script: str, **settings: Any) -> Iterator[Rigid]:
    """A rigid job that runs ``script`` with Python, not started yet; it is ended afterwards, whatever happened."""
    (folder / "script.py").write_text(script)
    name = f"rigid-{uuid.uuid4().hex[:8]}"
    defaults: dict[str, Any] = {
        "run_id": uuid.uuid4().hex,
        "entrypoint": f"{sys.executable} {folder / 'script.py'} {folder}",
        "gpus": 2,
        "launch": "gang",
        "storage": str(folder / "job"),
        "resources": {"CPU": 1.0},
        "grace_s": 10.0,
    }
    options: dict[str, Any] = {"name": master_name(name), "namespace": NAMESPACE, "lifetime": "detached"}
    master = GangActor.options(**options).remote(name, RigidSettings(**{**defaults, **settings}))
    job = Rigid(name, master, scheduler, folder)
    try:
        yield job
    except BaseException:
        print(job.view(), job.logs(), file=sys.stderr)
        raise
    finally:
        with contextlib.suppress(ActorDiedError):  # a test may have ended it
            job.call("dismiss")
            ray.kill(master, no_restart=True)
        assert held_slots(name) == [], "slots that nobody will give back"
        actors = ray.util.list_named_actors(all_namespaces=True)
        assert [a["name"] for a in actors if a["name"].startswith(f"process:{name}:")] == []
