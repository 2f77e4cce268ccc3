"""Masters on Ray: one detached actor for each job, found by its name."""

from __future__ import annotations

import threading
from typing import Any

import ray
from ray.exceptions import RayError

from raytide.actors.calls import NoAnswer, unwrap
from raytide.actors.grants import Grant
from raytide.actors.names import NAMESPACE, master_name
from raytide.actors.scheduler.work import ELASTIC, rigid_settings
from raytide.actors.slots import sweep
from raytide.actors.untyped import Handle, find_actor, near, this_node
from raytide.core.model import JobId
from raytide.errors import RaytideError, RequestRefused
from raytide.state import Work

START_S = 120.0
STOP_S = 300.0
CHANGE_S = 900.0
"""A resize takes as long as its slowest newcomer needs to build its model."""

LINGER_S = 60.0
"""The results of a job can be asked of its master for this long after its end."""


class RayMasters:
    """See :class:`~raytide.actors.scheduler.ports.Masters`."""

    def start(self, job: JobId, work: Work, request: str, grant: Grant) -> None:
        """Create the master if there is none, and let it start."""
        master = self._known(job) or self._create(job, work)
        try:
            unwrap(master.start_on.remote(request, grant), START_S)
        except (NoAnswer, RayError):
            self._end(job)  # whatever it has begun: the slots go to others now
            raise

    def scale(self, job: JobId, request: str, grant: Grant) -> None:
        """Change its slots."""
        unwrap(self._find(job).become.remote(request, grant), CHANGE_S)

    def suspend(self, job: JobId, request: str) -> None:
        """Save it and give back its slots."""
        unwrap(self._find(job).suspend.remote(request), CHANGE_S)

    def stop(self, job: JobId, request: str) -> None:
        """End it; one that does not listen is cut off."""
        try:
            unwrap(self._find(job).stop.remote(request), STOP_S)
        except (RaytideError, RayError):
            self._end(job)
            raise

    def ask(self, job: JobId) -> None:
        """Let it say how it stands."""
        self._find(job).say_again.remote()

    def forget(self, job: JobId) -> None:
        """End its master after a while; whoever waits for its results has them by then."""
        timer = threading.Timer(LINGER_S, self._end, args=(job,))
        timer.daemon = True
        timer.start()

    def _end(self, job: JobId) -> None:
        master = self._known(job)
        if master is not None:
            ray.kill(master, no_restart=True)
        sweep(job, ())

    def _find(self, job: JobId) -> Handle:
        master = self._known(job)
        if master is None:
            raise RequestRefused(f"job {job} has no master any more")
        return master

    @staticmethod
    def _known(job: JobId) -> Handle | None:
        return find_actor(master_name(job), NAMESPACE)

    @staticmethod
    def _create(job: JobId, work: Work) -> Handle:
        name: dict[str, Any] = {"name": master_name(job), "namespace": NAMESPACE, "lifetime": "detached"}
        name["scheduling_strategy"] = near(this_node())  # on a node with slots, it would keep an idle one from going
        # Masters import PyTorch, which takes seconds; the scheduler starts without it.
        if work.kind == ELASTIC:
            from raytide.actors.master import MasterActor  # noqa: PLC0415 - as above
            from raytide.actors.scheduler.elastic_work import elastic_spec  # noqa: PLC0415 - as above

            return MasterActor.options(**name).remote(elastic_spec(job, work))
        from raytide.actors.gang.master import GangActor  # noqa: PLC0415 - as above

        return GangActor.options(**name).remote(job, rigid_settings(work))
