"""Elastic jobs as they are kept in the state store. It imports PyTorch, as everything of training does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raytide.actors.scheduler.work import ELASTIC, Terms, adapter, sealed, settings_of
from raytide.actors.spec import JobSpec
from raytide.state import Work
from raytide.train.config import RunConfig, ScalingConfig


@dataclass(frozen=True)
class ElasticSettings:
    """An elastic job without its pickles; fields as in :class:`~raytide.actors.spec.JobSpec`."""

    run_id: str
    scaling: ScalingConfig
    run: RunConfig
    storage: str
    checkpoint: str = ""
    start_delay_s: float = 0.0
    runtime_env: Mapping[str, Any] = field(default_factory=dict)


def elastic_work(
    settings: ElasticSettings, loop: bytes, config: bytes, platform_faults: int = 3, lease_s: float = 0.0
) -> Work:
    """An elastic job for the store; the last two as in :class:`~raytide.actors.scheduler.work.Terms`."""
    scaling = settings.scaling
    terms = Terms(scaling.least, scaling.most, platform_faults=platform_faults, lease_s=lease_s)
    text = adapter(ElasticSettings).dump_json(settings).decode()
    return sealed(ELASTIC, terms, text, {"loop": loop, "config": config})


def elastic_spec(job: str, work: Work) -> JobSpec:
    """An elastic job for its master."""
    settings: ElasticSettings = adapter(ElasticSettings).validate_json(settings_of(work))
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
