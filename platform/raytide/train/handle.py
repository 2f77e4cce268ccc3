"""What can be done with a running job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from raytide.train.result import RequestCost, Result

if TYPE_CHECKING:
    import pandas as pd


class JobHandle(Protocol):
    """A running job. Every request returns when it is done, with what it cost.

    Requests at the same time are merged or queued; one that cannot be met raises
    :class:`~raytide.errors.RequestRefused` and changes nothing.
    """

    @property
    def name(self) -> str:
        """The job's name."""

    def view(self, since: int = 0) -> Any:
        """The job as it stands: phase, step, replicas, metrics, and events from number ``since`` on."""

    def scale_out(self, count: int = 0, *, slots: Sequence[str] = ()) -> RequestCost:
        """Add ``count`` replicas on free slots, or one on each node named in ``slots``."""

    def scale_in(self, count: int = 0, *, ranks: Sequence[int] = ()) -> RequestCost:
        """Take out the ``count`` last replicas, or those of ``ranks``."""

    def migrate(self, rank: int, slot: str = "") -> RequestCost:
        """Move the replica of ``rank`` to a free slot of the node named ``slot`` (any node if empty)."""

    def profile(self, least: int, most: int, *, window_s: float = 3.0) -> pd.DataFrame:
        """Throughput at each size from ``most`` down to ``least``: ``world_size, step_s, samples_per_s, steps``."""

    def checkpoint(self) -> RequestCost:
        """Write a checkpoint beside training."""

    def suspend(self) -> RequestCost:
        """Save the state and give back every slot."""

    def resume(self, count: int = 0) -> RequestCost:
        """Go on after :meth:`suspend`, with ``count`` replicas (as at the start, if 0)."""

    def stop(self) -> RequestCost:
        """End the job at its next boundary, with a checkpoint."""

    def result(self, *, progress: bool = False, timeout_s: float | None = None) -> Result:
        """Wait for the end of the job; raises :class:`~raytide.errors.JobFailed` if it failed."""

    def close(self) -> None:
        """End the job, cutting it off if it still runs, and the cluster that was started for it."""
