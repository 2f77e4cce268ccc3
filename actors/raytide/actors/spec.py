"""A job as it travels to its master."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raytide.elastic.model import Bounds, Limits
from raytide.train.config import RunConfig, ScalingConfig


@dataclass(frozen=True)
class JobSpec:
    """Everything a master needs to run a job.

    Attributes:
        name: Unique on the cluster.
        run_id: Tells this run from an earlier one of the same name, whose journal may lie in the same storage.
        loop: The pickled loop; opened in replicas only, never in the master.
        config: The pickled argument of the loop.
        scaling: Replica counts and slots.
        run: Storage and failure handling.
        storage: Root of the job's checkpoints and journal.
        checkpoint: Path of the checkpoint to start from, empty for none.
        owner_lease_s: Without a sign of the job's owner for this long the job stops with a checkpoint;
            0 lets it go on alone.
        managed: A scheduler decides where the job runs: it takes no slot but those it is granted.
        start_delay_s: Newcomers wait this long before their loop starts; for tests of slow starts.
        runtime_env: Ray's, for the replicas.
    """

    name: str
    run_id: str
    loop: bytes
    config: bytes
    scaling: ScalingConfig
    run: RunConfig
    storage: str
    checkpoint: str = ""
    owner_lease_s: float = 0.0
    managed: bool = False
    start_delay_s: float = 0.0
    runtime_env: Mapping[str, Any] = field(default_factory=dict)

    def bounds(self) -> Bounds:
        """The job's limits, for the membership protocol."""
        failures = self.run.failure_config
        return Bounds(
            self.scaling.least,
            self.scaling.most,
            max_failures=failures.max_failures,
            max_user_errors=failures.max_user_errors,
            replace_lost=failures.replace_lost,
            limits=Limits(suspect_s=failures.suspect_s),
        )
