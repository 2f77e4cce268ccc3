"""Job files on their way to the scheduler: from what a tenant writes to a spec and what its master needs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raytide.actors.gang.settings import RigidSettings
from raytide.actors.imported_loop import ImportedLoop
from raytide.actors.managed import portable
from raytide.actors.scheduler.elastic_work import ElasticSettings, elastic_work
from raytide.actors.scheduler.work import rigid_work
from raytide.core.model import JobSpec
from raytide.state import Work
from raytide.submission import ElasticJob, JobFile, RigidJob
from raytide.train.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig


def job_submission(
    job: JobFile, name: str, folder: Path, slot: Mapping[str, float], now_s: float
) -> tuple[JobSpec, Work]:
    """A job for the scheduler.

    Args:
        job: What the file says.
        name: What the job is called.
        folder: Where the file is; relative paths in it begin there.
        slot: Ray resources of one slot of the platform.
        now_s: When it is handed in, in seconds since 1970.

    Raises:
        ConfigError: Its deadline is over.
    """
    spec = job.to_spec(name, job.tenant or "", now_s)
    storage = storage_root(job.storage, folder)
    work = _elastic(job, name, storage, slot) if isinstance(job, ElasticJob) else _rigid(job, name, storage, slot)
    return spec, work


def storage_root(storage: str, folder: Path) -> str | None:
    """The folder or URL of a job file, whatever folder it is read in; None if it names none."""
    if not storage or "://" in storage:
        return storage or None
    return str((folder / Path(storage).expanduser()).absolute())


def _elastic(job: ElasticJob, name: str, storage: str | None, slot: Mapping[str, float]) -> Work:
    run = RunConfig(
        name=name,
        storage_path=storage,
        failure_config=FailureConfig(job.retries.lost_nodes, job.retries.user_errors),
        checkpoint_config=CheckpointConfig(every_s=job.checkpoint_every or 0.0),
        progress=False,
    )
    scaling = ScalingConfig(
        num_workers=job.workers,
        use_gpu="GPU" in slot,
        resources_per_worker=dict(slot),
        start_workers=job.start_workers,
    )
    settings = ElasticSettings(
        run_id=uuid.uuid4().hex,
        scaling=scaling,
        run=run,
        storage=run.storage_for(name),
        runtime_env=_environment(job),
    )
    loop, config = portable(ImportedLoop(job.loop), "the loop"), portable(job.config, "config")
    return elastic_work(settings, loop, config, job.retries.platform_faults)


def _rigid(job: RigidJob, name: str, storage: str | None, slot: Mapping[str, float]) -> Work:
    settings = RigidSettings(
        run_id=uuid.uuid4().hex,
        entrypoint=job.entrypoint,
        gpus=job.gpus,
        launch=job.launch,
        storage=RunConfig(name=name, storage_path=storage).storage_for(name),
        resources=dict(slot),
        runtime_env=_environment(job),
        user_errors=job.retries.user_errors,
        lost_nodes=job.retries.lost_nodes,
    )
    return rigid_work(settings, job.retries.platform_faults)


def _environment(job: JobFile) -> dict[str, Any]:
    return job.runtime_env.for_ray()
