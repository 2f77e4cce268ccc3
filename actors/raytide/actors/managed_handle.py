"""A handle to a job of a running platform: the scheduler is asked, not the job's master."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ray.exceptions import RayError

from raytide.actors.client import RayJobHandle, failure_of
from raytide.actors.names import NAMESPACE, master_name
from raytide.actors.platform import Platform
from raytide.actors.scheduler.info import JobInfo
from raytide.actors.untyped import find_actor
from raytide.errors import JobFailed, RaytideError, RequestRefused
from raytide.train.result import RequestCost, Result

if TYPE_CHECKING:
    import pandas as pd

    from raytide.actors.views import JobView

logger = logging.getLogger(__name__)

POLL_S = 0.1
CHANGE_S = 600.0
PING_S = 5.0


class ManagedJobHandle:
    """A job of a platform; see :class:`raytide.train.JobHandle`.

    Args:
        platform: Where it is.
        name: Its name.
        storage: Root of its checkpoints.
        owns: It is cancelled some time after this handle's process is gone.
    """

    def __init__(self, platform: Platform, name: str, storage: str, *, owns: bool) -> None:
        self._platform = platform
        self._name = name
        self._storage = storage
        self._owns = owns
        self._closed = threading.Event()
        if owns:
            threading.Thread(target=self._keep_alive, name=f"raytide-owner-{name}", daemon=True).start()

    def _keep_alive(self) -> None:
        while not self._closed.wait(PING_S):
            try:
                self._platform.owner_lives(self._name)
            except (RaytideError, RayError) as error:
                logger.info("job %s: the scheduler does not answer: %s", self._name, error)

    @property
    def name(self) -> str:
        """The job's name."""
        return self._name

    def info(self) -> JobInfo:
        """The job as the scheduler knows it."""
        return self._platform.job(self._name)

    def view(self, since: int = 0) -> JobView:
        """The job as its master knows it, with the events from number ``since`` on.

        Raises:
            RequestRefused: It has not started, or is over for a while.
        """
        return self._at_master().view(since)

    def _at_master(self) -> RayJobHandle:
        master = find_actor(master_name(self._name), NAMESPACE)
        if master is None:
            info = self.info()
            raise RequestRefused(f"job {self._name} is {info.state}: {info.reason}")
        return RayJobHandle(self._name, master, self._storage)

    # --- requests ----------------------------------------------------------------------------

    def scale_out(self, count: int = 0, *, slots: Sequence[str] = ()) -> RequestCost:
        """Have ``count`` replicas more, and keep that number; the platform decides where."""
        return self._resize(count, slots)

    def scale_in(self, count: int = 0, *, ranks: Sequence[int] = ()) -> RequestCost:
        """Have ``count`` replicas less, and keep that number; the platform decides which."""
        return self._resize(-count, ranks)

    def _resize(self, change: int, chosen: Sequence[object]) -> RequestCost:
        if chosen:
            raise RequestRefused("on a platform the scheduler chooses slots and ranks: say only how many")
        began_s = time.monotonic()
        wanted = self.info().count + change
        self._platform.scale(self._name, wanted, wanted)
        info = self._wait(lambda job: job.state == "running" and job.count == wanted, f"{wanted} replicas")
        return RequestCost(info.count, info.generation, 0.0, 0.0, 0, 0.0, time.monotonic() - began_s, "")

    def migrate(self, rank: int, slot: str = "") -> RequestCost:
        """Refused: the scheduler decides where a job is."""
        raise RequestRefused(f"job {self._name} is on a platform: its scheduler decides where rank {rank} is")

    def profile(self, least: int, most: int, *, window_s: float = 3.0) -> pd.DataFrame:
        """Refused: the scheduler decides how many replicas a job has."""
        raise RequestRefused(f"job {self._name} is on a platform, which measures {least} to {most} replicas as it goes")

    def checkpoint(self) -> RequestCost:
        """Write a checkpoint beside training."""
        return self._at_master().checkpoint()

    def suspend(self) -> RequestCost:
        """Save the state and give back every slot."""
        self._platform.suspend(self._name)
        return self._cost(self._wait(lambda job: job.state == "suspended", "suspension"))

    def resume(self, count: int = 0) -> RequestCost:
        """Go on after :meth:`suspend` when it is the job's turn; the scheduler decides with how many."""
        self._platform.resume(self._name)
        return self._cost(self.info())

    def stop(self) -> RequestCost:
        """Cancel the job, with a checkpoint."""
        self._platform.cancel(self._name)
        return self._cost(self._platform.wait(self._name, CHANGE_S))

    @staticmethod
    def _cost(info: JobInfo) -> RequestCost:
        return RequestCost(info.count, info.generation, 0.0, 0.0, 0, 0.0, 0.0, info.checkpoint)

    def _wait(self, condition: Callable[[JobInfo], bool], what: str) -> JobInfo:
        deadline_s = time.monotonic() + CHANGE_S
        while True:
            info = self.info()
            if condition(info):
                return info
            if info.ended or time.monotonic() > deadline_s:
                raise RequestRefused(f"job {self._name}: no {what}: it is {info.state}: {info.reason}")
            time.sleep(POLL_S)

    # --- the end -----------------------------------------------------------------------------

    def result(self, *, progress: bool = False, timeout_s: float | None = None) -> Result:
        """Wait until the job has ended and given back its slots.

        Raises:
            JobFailed: It failed, or was refused.
            TimeoutError: It did not end within ``timeout_s``.
        """
        deadline_s = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
        while True:
            info = self.info()
            if info.state == "refused":
                raise JobFailed(f"job {self._name} was refused: {info.reason}")
            if info.first_start_s is not None and find_actor(master_name(self._name), NAMESPACE) is not None:
                return self._at_master().result(progress=progress, timeout_s=timeout_s)
            if info.ended:
                raise failure_of(self._name, info.reason)
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"job {self._name} is {info.state} after {timeout_s} s: {info.reason}")
            time.sleep(POLL_S)

    def close(self) -> None:
        """Cancel the job if it still runs and this handle owns it."""
        self._closed.set()
        if not self._owns:
            return
        try:
            self._platform.cancel(self._name)
        except (RaytideError, RayError) as error:
            logger.debug("job %s: %s", self._name, error)  # it is over, which is the usual case
