"""What masters need to start their jobs, as it is kept in the state store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from raytide.actors.gang.settings import RigidSettings as RigidSettings  # noqa: PLC0414 - known from here
from raytide.actors.spec import JobSpec
from raytide.state import Work
from raytide.train.config import RunConfig, ScalingConfig

ELASTIC, RIGID = "elastic", "rigid"


@dataclass(frozen=True)
class ElasticSettings:
    """An elastic job without its pickles; fields as in :class:`~raytide.actors.spec.JobSpec`.

    Attributes:
        platform_faults: How many faults of the platform it is retried after.
    """

    run_id: str
    scaling: ScalingConfig
    run: RunConfig
    storage: str
    checkpoint: str = ""
    start_delay_s: float = 0.0
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    platform_faults: int = 3


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def elastic_work(settings: ElasticSettings, loop: bytes, config: bytes) -> Work:
    """An elastic job for the store."""
    text = _adapter(ElasticSettings).dump_json(settings).decode()
    return Work(ELASTIC, text, {"loop": loop, "config": config})


def elastic_spec(job: str, work: Work) -> JobSpec:
    """An elastic job for its master."""
    settings: ElasticSettings = _adapter(ElasticSettings).validate_json(work.settings)
    return JobSpec(
        name=job,
        run_id=settings.run_id,
        loop=work.blobs["loop"],
        config=work.blobs["config"],
        scaling=settings.scaling,
        run=settings.run,
        storage=settings.storage,
        checkpoint=settings.checkpoint,
        managed=True,
        start_delay_s=settings.start_delay_s,
        runtime_env=settings.runtime_env,
    )


def rigid_work(settings: RigidSettings) -> Work:
    """A rigid job for the store."""
    return Work(RIGID, _adapter(RigidSettings).dump_json(settings).decode())


def rigid_settings(work: Work) -> RigidSettings:
    """A rigid job for its master."""
    settings: RigidSettings = _adapter(RigidSettings).validate_json(work.settings)
    return settings


def platform_faults(work: Work) -> int:
    """How many faults of the platform a job is retried after."""
    kind = ElasticSettings if work.kind == ELASTIC else RigidSettings
    settings: ElasticSettings | RigidSettings = _adapter(kind).validate_json(work.settings)
    return settings.platform_faults
