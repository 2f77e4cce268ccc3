"""The platform of the connected cluster, as its clients use it. It imports neither PyTorch nor any training code."""

from __future__ import annotations

import time
import uuid
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError

from raytide.actors.calls import NoAnswer, unwrap
from raytide.actors.names import NAMESPACE, SCHEDULER, has_scheduler, scheduler_actor
from raytide.actors.scheduler.actor import SchedulerActor, Submission
from raytide.actors.scheduler.autoscaling import withdraw_all
from raytide.actors.scheduler.info import JobInfo, PlatformInfo
from raytide.actors.scheduler.settings import PlatformSettings
from raytide.actors.slots import sweep
from raytide.actors.untyped import Handle, head_node, near
from raytide.core.model import JobId, JobSpec
from raytide.errors import RequestRefused
from raytide.state import StoredTenant, Work
from raytide.submission.access import Caller

CALL_S = 75.0
AWAY_S = 90.0
"""A scheduler that restarts is waited for this long; whatever it was asked is asked again, and done once."""

RETRY_S = 0.2
POLL_S = 0.2


def start_platform(settings: PlatformSettings) -> Platform:
    """Start the scheduler of the connected cluster, or find the one that runs.

    Raises:
        RequestRefused: It does not come up.
    """
    if not has_scheduler():
        options: dict[str, Any] = {"name": SCHEDULER, "namespace": NAMESPACE, "lifetime": "detached"}
        options["scheduling_strategy"] = near(head_node())
        SchedulerActor.options(**options, get_if_exists=True).remote(settings)
    platform = Platform("")
    platform.info()
    return platform


def find_platform(token: str) -> Platform:
    """The platform of the connected cluster.

    Raises:
        RequestRefused: None runs there.
    """
    if not has_scheduler():
        raise RequestRefused("no raytide platform runs on this cluster: start it with `raytide up`")
    return Platform(token)


class Platform:
    """A running platform.

    Args:
        token: Who asks; questions need none.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    # --- jobs --------------------------------------------------------------------------------

    def submit(self, spec: JobSpec, work: Work, key: str = "") -> JobInfo:
        """Hand in a job; returns when it is on disk.

        Args:
            spec: What the scheduler has to know; without a tenant it is the token's.
            work: What its master has to know.
            key: The same for the same submission, if it is said again.
        """
        submission = Submission(key or uuid.uuid4().hex, spec, work)
        info: JobInfo = self._call("submit", self._token, submission)
        return info

    def job(self, job: JobId) -> JobInfo:
        """One job."""
        info: JobInfo = self._call("job", job)
        return info

    def jobs(self, tenant: str | None = None, ended: int = 0) -> list[JobInfo]:
        """Jobs that have not ended, then the newest ``ended`` ones that have."""
        infos: list[JobInfo] = self._call("jobs", tenant, ended)
        return infos

    def wait(self, job: JobId, timeout_s: float | None = None) -> JobInfo:
        """The job, when it has ended.

        Raises:
            TimeoutError: It has not.
        """
        deadline_s = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
        while True:
            info = self.job(job)
            if info.ended:
                return info
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"job {job} is {info.state} after {timeout_s} s: {info.reason}")
            time.sleep(POLL_S)

    def owner_lives(self, job: JobId) -> None:
        """The owner of a job still waits for it."""
        self._call("owner_lives", job)

    def cancel(self, job: JobId) -> None:
        """End a job."""
        self._call("cancel", self._token, job)

    def suspend(self, job: JobId) -> None:
        """Save it and let it rest."""
        self._call("suspend", self._token, job)

    def resume(self, job: JobId) -> None:
        """Let it go on when it is its turn."""
        self._call("resume", self._token, job)

    def scale(self, job: JobId, least: int, most: int) -> None:
        """Give it other bounds."""
        self._call("scale", self._token, job, least, most)

    def pin(self, job: JobId, *, pinned: bool = True) -> None:
        """Leave it as it is, or no longer."""
        self._call("pin", self._token, job, pinned=pinned)

    # --- the platform ------------------------------------------------------------------------

    def info(self) -> PlatformInfo:
        """Everything at one instant."""
        info: PlatformInfo = self._call("platform")
        return info

    def set_policy(self, name: str) -> None:
        """Schedule by another policy from now on; returns when it does."""
        before = self.info().incarnation
        self._call("set_policy", self._token, name)
        deadline_s = time.monotonic() + AWAY_S
        while self.info().incarnation == before:
            if time.monotonic() > deadline_s:
                raise RequestRefused(f"the scheduler did not start again within {AWAY_S:.0f} s")
            time.sleep(POLL_S)

    def standbys(self) -> dict[str, int]:
        """Warm processes by node."""
        counts: dict[str, int] = self._call("standbys")
        return counts

    def put_tenant(self, stored: StoredTenant) -> None:
        """Add a tenant, or change one."""
        self._call("put_tenant", self._token, stored)

    def remove_tenant(self, tenant: str) -> None:
        """Take one out."""
        self._call("remove_tenant", self._token, tenant)

    def tenants(self) -> list[StoredTenant]:
        """All tenants, without their tokens."""
        stored: list[StoredTenant] = self._call("tenants")
        return stored

    def drain(self, node: str) -> str:
        """Empty a node; returns its id."""
        found: str = self._call("drain", self._token, node)
        return found

    def whoami(self) -> Caller:
        """Whose token this is."""
        caller: Caller = self._call("whoami", self._token)
        return caller

    def pid(self) -> int:
        """Process id of the scheduler."""
        found: int = self._call("pid")
        return found

    def shut_down(self) -> None:
        """End the scheduler and every job, at once. Their checkpoints stay, and so does what is in the store.

        Raises:
            AccessDenied: The token is no administrator's.
        """
        self._call("close", self._token)
        ray.kill(scheduler_actor(), no_restart=True)
        for actor in ray.util.list_named_actors(all_namespaces=True):
            if actor["namespace"] == NAMESPACE:
                _kill(actor["name"])
        for group in ray.util.placement_group_table().values():
            if group["name"].startswith("raytide:"):
                sweep(group["name"].split(":")[1], ())
        withdraw_all()  # last: the scheduler may have asked until it was gone

    def _call(self, method: str, *arguments: object, **named: object) -> Any:
        deadline_s = time.monotonic() + AWAY_S
        while True:
            try:
                return unwrap(getattr(_scheduler(), method).remote(*arguments, **named), CALL_S)
            except (ActorUnavailableError, ActorDiedError, NoAnswer) as error:
                if time.monotonic() > deadline_s:
                    raise RequestRefused(f"the scheduler is away for {AWAY_S:.0f} s: {error}") from error
                time.sleep(RETRY_S)


def _scheduler() -> Handle:
    try:
        return scheduler_actor()
    except ValueError:
        raise RequestRefused("the platform of this cluster was shut down") from None


def _kill(name: str) -> None:
    try:
        ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
    except (ValueError, RayActorError):
        return  # gone already
