"""A handle to a running job: every call goes to its master's actor."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError

from raytide.actors.calls import unwrap
from raytide.actors.names import MASTER_PREFIX, NAMESPACE, master_name
from raytide.actors.progress import Progress
from raytide.actors.slots import sweep
from raytide.actors.untyped import Handle, get
from raytide.actors.views import Event, JobView
from raytide.elastic.effects import Answer
from raytide.errors import LOOP_RAISED, JobFailed, LoopError, RequestRefused
from raytide.train.checkpoint import Checkpoint
from raytide.train.result import RequestCost, Result, resize_history

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

POLL_S = 0.25
OWNER_PING_S = 5.0
VIEW_TIMEOUT_S = 60.0
DISMISS_TIMEOUT_S = 10.0


def find_job(name: str) -> RayJobHandle:
    """A handle to a job that runs on the connected cluster.

    Raises:
        RequestRefused: There is none of this name.
    """
    try:
        master = ray.get_actor(master_name(name), namespace=NAMESPACE)
    except ValueError as error:
        known = ", ".join(list_jobs()) or "none"
        raise RequestRefused(f"no job called {name!r} is running; running: {known}") from error
    return RayJobHandle(name, master, "")


def list_jobs() -> list[str]:
    """Names of the jobs on the connected cluster."""
    actors = ray.util.list_named_actors(all_namespaces=True)
    names = [a["name"] for a in actors if a["namespace"] == NAMESPACE]
    return sorted(n.removeprefix(MASTER_PREFIX) for n in names if n.startswith(MASTER_PREFIX))


class RayJobHandle:
    """A running job on Ray; see :class:`raytide.train.JobHandle`.

    Args:
        name: The job's name.
        master: Its master's actor.
        storage: Root of its checkpoints.
        owns: The job ends some time after this handle's process does.
        ends_cluster: The cluster was started for this job and ends with it.
    """

    def __init__(
        self, name: str, master: Handle, storage: str, *, owns: bool = False, ends_cluster: bool = False
    ) -> None:
        self._name = name
        self._master = master
        self._storage = storage
        self._ends_cluster = ends_cluster
        self._owns = owns
        self._closed = threading.Event()
        if owns:
            threading.Thread(target=self._keep_alive, name=f"raytide-owner-{name}", daemon=True).start()

    def _keep_alive(self) -> None:
        """Renew the job's lease, whatever this process is waiting for meanwhile."""
        while not self._closed.wait(OWNER_PING_S) and ray.is_initialized():
            try:
                get(self._master.owner_lives.remote(), VIEW_TIMEOUT_S)
            except Exception as error:  # noqa: BLE001 - the loop's edge: this process may be disconnecting
                logger.info("job %s: the master does not answer: %s", self._name, error)

    @property
    def name(self) -> str:
        """The job's name."""
        return self._name

    @property
    def master(self) -> Handle:
        """The actor of the job's master."""
        return self._master

    def view(self, since: int = 0) -> JobView:
        """The job as it stands, with the events from number ``since`` on."""
        view: JobView = unwrap(self._master.view.remote(since), VIEW_TIMEOUT_S)
        return view

    # --- requests ----------------------------------------------------------------------------

    def scale_out(self, count: int = 0, *, slots: Sequence[str] = ()) -> RequestCost:
        """Add ``count`` replicas on free slots, or one on each node named in ``slots``."""
        return self._request(self._master.scale_out, count, tuple(slots))

    def scale_in(self, count: int = 0, *, ranks: Sequence[int] = ()) -> RequestCost:
        """Take out the ``count`` last replicas, or those of ``ranks``."""
        return self._request(self._master.scale_in, count, tuple(ranks))

    def migrate(self, rank: int, slot: str = "") -> RequestCost:
        """Move the replica of ``rank`` to a free slot of the node named ``slot`` (any node if empty)."""
        return self._request(self._master.migrate, rank, slot)

    def profile(self, least: int, most: int, *, window_s: float = 3.0) -> pd.DataFrame:
        """Throughput at each size from ``most`` down to ``least``, from this one run."""
        import pandas as pd  # noqa: PLC0415 - a second of import that most commands need not pay

        profiles = unwrap(self._master.profile.remote(_new_request(), least, most, window_s), None)
        return pd.DataFrame([asdict(profile) for profile in profiles])

    def checkpoint(self) -> RequestCost:
        """Write a checkpoint beside training."""
        return self._request(self._master.checkpoint)

    def suspend(self) -> RequestCost:
        """Save the state and give back every slot."""
        return self._request(self._master.suspend)

    def resume(self, count: int = 0) -> RequestCost:
        """Go on after :meth:`suspend`."""
        return self._request(self._master.resume, count)

    def stop(self) -> RequestCost:
        """End the job at its next boundary, with a checkpoint."""
        return self._request(self._master.stop)

    def _request(self, method: Any, *arguments: object) -> RequestCost:
        answer: Answer = unwrap(method.remote(_new_request(), *arguments), None)
        return RequestCost(
            answer.world_size,
            answer.generation,
            answer.cost.pause_s,
            answer.cost.transfer_s,
            answer.cost.bytes_moved,
            answer.prepare_s,
            answer.total_s,
            answer.path,
        )

    # --- the end -----------------------------------------------------------------------------

    def result(self, *, progress: bool = False, timeout_s: float | None = None) -> Result:
        """Wait until the job has ended and given back its slots.

        Raises:
            JobFailed: It failed.
            TimeoutError: It did not end within ``timeout_s``.
        """
        deadline_s = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
        events: list[Event] = []
        with Progress(self._name, shown=progress) as shown:
            while True:
                view = self._patient_view(events[-1].number + 1 if events else 0)
                events += view.events
                shown.update(view)
                if view.released:
                    break
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"job {self._name} is {view.phase} at step {view.step} after {timeout_s} s")
                time.sleep(POLL_S)
        if view.phase == "failed":
            raise failure_of(self._name, view.error)
        return self._result(view, events)

    def _patient_view(self, since: int) -> JobView:
        """The job as it stands, however long its master takes to come back: training goes on meanwhile."""
        while True:
            try:
                return self.view(since)
            except RequestRefused as error:
                logger.warning("job %s: %s; waiting for it to come back", self._name, error)

    def _result(self, view: JobView, events: list[Event]) -> Result:
        import pandas as pd  # noqa: PLC0415 - as in profile()

        rows = unwrap(self._master.metrics.remote(), VIEW_TIMEOUT_S)
        plain = [asdict(event) for event in events]
        return Result(
            job=self._name,
            status=view.phase,
            metrics=dict(view.metrics),
            metrics_dataframe=pd.DataFrame(rows),
            checkpoint=Checkpoint(view.checkpoint) if view.checkpoint else None,
            resizes=resize_history(plain),
            events=pd.DataFrame(plain, columns=["number", "time_s", "kind", "text", "data"]),
        )

    def close(self) -> None:
        """End the job and its master (its owner only), and the cluster that was started for it.

        A job that still runs is cut off without a checkpoint; :meth:`stop` it before to keep its work.
        """
        self._closed.set()
        if not self._owns or not ray.is_initialized():
            return
        with contextlib.suppress(RayError):
            get(self._master.dismiss.remote(), DISMISS_TIMEOUT_S)  # or it would reserve slots until it is dead
        with contextlib.suppress(RayError, ValueError):  # it may be gone already, which is what is wanted
            ray.kill(self._master, no_restart=True)
        sweep(self._name, ())  # what a master that is gone has left
        if self._ends_cluster:
            ray.shutdown()


def failure_of(job: str, error: str) -> JobFailed:
    """The exception for a job that failed with this error."""
    head, _, traceback_text = error.partition("\n")
    if head.startswith(LOOP_RAISED):
        return LoopError(job, int(head.rsplit(" ", 1)[1]), traceback_text)
    return JobFailed(f"job {job} failed: {error}")


def _new_request() -> str:
    return f"q-{uuid.uuid4().hex[:12]}"
