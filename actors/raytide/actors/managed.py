"""Training jobs on a running platform: from what ``ElasticTrainer`` asks for to what the scheduler takes in."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raytide.actors.scheduler.elastic_work import ElasticSettings, elastic_work
from raytide.actors.untyped import pickled
from raytide.core.model import JobSpec, Role
from raytide.errors import ConfigError
from raytide.state import Work
from raytide.train.trainer import JobRequest


@dataclass(frozen=True)
class Standing:
    """Where a job stands among those of others; all optional.

    Attributes:
        tenant: Whose it is; the token's, if empty.
        priority: Higher goes first, where the policy looks at it.
        preemptible: It may be suspended for others.
        deadline_s: When it has to be done, in seconds since 1970.
        duration_s: Declared run time at the size it starts with.
        work: Declared samples in all.
        model: Name by which speeds are looked up.
        platform_faults: How many faults of the platform it is retried after.
        lease_s: Without a sign of its owner for this long it is cancelled; 0 lets it go on alone.
        runtime_env: Ray's, for its processes.
    """

    tenant: str = ""
    priority: int = 0
    preemptible: bool = True
    deadline_s: float | None = None
    duration_s: float | None = None
    work: float | None = None
    model: str = ""
    platform_faults: int = 3
    lease_s: float = 0.0
    runtime_env: Mapping[str, Any] = field(default_factory=dict)


def elastic_submission(request: JobRequest, standing: Standing) -> tuple[JobSpec, Work]:
    """A job for the scheduler.

    Raises:
        ConfigError: The loop cannot be pickled.
    """
    settings = ElasticSettings(
        run_id=uuid.uuid4().hex,
        scaling=request.scaling,
        run=request.run,
        storage=request.run.storage_for(request.name),
        checkpoint=request.checkpoint,
        runtime_env=standing.runtime_env,
    )
    loop = portable(request.loop, "the training loop")
    config = portable(request.config, "train_loop_config")
    work = elastic_work(settings, loop, config, standing.platform_faults, standing.lease_s)
    spec = JobSpec(
        job=request.name,
        tenant=standing.tenant,
        submitted_s=0.0,
        roles=(Role("replica", request.scaling.least, request.scaling.most),),
        requested=request.scaling.first,
        priority=standing.priority,
        preemptible=standing.preemptible,
        duration_s=standing.duration_s,
        work=standing.work,
        deadline_s=standing.deadline_s,
        model=standing.model,
    )
    return spec, work


def portable(value: object, what: str) -> bytes:
    """A pickle of something that replicas open.

    Raises:
        ConfigError: It cannot be pickled.
    """
    try:
        return pickled(value)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        raise ConfigError(
            f"ElasticTrainer({what})",
            f"it cannot be sent to the replicas: {error}",
            "Open files, locks and connections inside the loop, not outside",
        ) from error
