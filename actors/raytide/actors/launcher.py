"""Launching jobs on Ray: the cluster (an embedded one where none runs), the master, and its handle."""

from __future__ import annotations

import json
import logging
import os
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

from raytide.actors.calls import unwrap
from raytide.actors.client import RayJobHandle
from raytide.actors.managed import Standing, elastic_submission, portable
from raytide.actors.managed_handle import ManagedJobHandle
from raytide.actors.master import MasterActor
from raytide.actors.names import NAMESPACE, has_scheduler, master_name
from raytide.actors.platform import Platform
from raytide.actors.spec import JobSpec
from raytide.actors.untyped import Handle, last_address, total_resources
from raytide.errors import ConfigError, RequestRefused
from raytide.submission.local_token import local_token
from raytide.train.config import ScalingConfig
from raytide.train.handle import JobHandle
from raytide.train.trainer import JobRequest

START_TIMEOUT_S = 120.0
OWNER_LEASE_S = 60.0
PROBE_TIMEOUT_S = 1.0


class RayLauncher:
    """Starts jobs on the Ray cluster that is connected, found, or started for them."""

    def __init__(self, *, start_delay_s: float = 0.0) -> None:
        self._start_delay_s = start_delay_s

    def launch(self, request: JobRequest) -> JobHandle:
        """Start a job; returns when its replicas are starting, or when the platform that runs has taken it in.

        Raises:
            ConfigError: The loop cannot be pickled, or GPUs are asked for where there are none.
            RequestRefused: There are not enough free slots, or the name is taken.
            AccessDenied: The platform does not know who asks.
        """
        spec = self._spec(request)
        embedded = ensure_cluster(request.scaling)
        if not embedded and has_scheduler():
            return submit_to_platform(request)
        return _start(spec, embedded=embedded)

    def _spec(self, request: JobRequest) -> JobSpec:
        return JobSpec(
            name=request.name,
            run_id=uuid.uuid4().hex,
            loop=portable(request.loop, "the training loop"),
            config=portable(request.config, "train_loop_config"),
            scaling=request.scaling,
            run=request.run,
            storage=request.run.storage_for(request.name),
            checkpoint=request.checkpoint,
            owner_lease_s=OWNER_LEASE_S,
            start_delay_s=self._start_delay_s,
        )


def _start(spec: JobSpec, *, embedded: bool) -> RayJobHandle:
    try:
        _check_resources(spec.scaling)
        master = _create_master(spec)
    except BaseException:
        if embedded:
            ray.shutdown()
        raise
    handle = RayJobHandle(spec.name, master, spec.storage, owns=True, ends_cluster=embedded)
    try:
        unwrap(master.start.remote(), START_TIMEOUT_S)
    except BaseException:
        handle.close()
        raise
    return handle


def submit_to_platform(request: JobRequest) -> ManagedJobHandle:
    """Hand a job in at the platform of the connected cluster; it is this process's, and is cancelled if that ends.

    Its tenant and priority, and the token, are those of the ``ray job`` that this process is, where it is one.
    """
    metadata = ray_job_metadata(os.environ)
    token = metadata.get("raytide.token") or local_token(os.environ, Path.home())
    standing = Standing(
        tenant=metadata.get("raytide.tenant", ""),
        priority=int(metadata.get("raytide.priority", "0")),
        lease_s=OWNER_LEASE_S,
    )
    platform = Platform(token)
    info = platform.submit(*elastic_submission(request, standing))
    return ManagedJobHandle(platform, info.job, request.run.storage_for(info.job), owns=True)


def ray_job_metadata(environment: Mapping[str, str]) -> Mapping[str, str]:
    """What ``ray job submit --metadata-json`` said of the job that this process is; empty if it is none."""
    text = environment.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "")
    found: Mapping[str, str] = json.loads(text).get("metadata", {}) if text else {}
    return found


def _create_master(spec: JobSpec) -> Handle:
    try:
        named = MasterActor.options(name=master_name(spec.name), namespace=NAMESPACE, lifetime="detached")
        master: Handle = named.remote(spec)
    except ValueError as error:
        raise RequestRefused(f"a job called {spec.name!r} is already running: choose another name") from error
    return master


def ensure_cluster(scaling: ScalingConfig) -> bool:
    """Connect to a Ray cluster; returns True when one had to be started, which then ends with the job."""
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"log_to_driver": True, "logging_level": logging.WARNING}
    address = find_cluster()
    if address is not None:
        ray.init(address=address, **options)
        return False
    # Slots are logical without GPUs: a machine with two cores can hold four replicas, if not fast.
    cpus = max(os.cpu_count() or 1, scaling.most * int(scaling.slot_resources.get("CPU", 0)))
    ray.init(address="local", num_cpus=cpus, include_dashboard=False, **options)
    return True


def find_cluster() -> str | None:
    """Address of the cluster to connect to: ``RAY_ADDRESS``, or the one started last on this machine.

    A cluster that was killed leaves its address behind, and Ray tries it for minutes: it is probed first.
    """
    address = os.environ.get("RAY_ADDRESS")
    if address:
        return None if address == "local" else address
    known = last_address()
    if not known:
        return None
    host, _, port = known.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_TIMEOUT_S).close()
    except OSError:
        return None
    return known


def _check_resources(scaling: ScalingConfig) -> None:
    if not scaling.use_gpu:
        return
    gpus = total_resources().get("GPU", 0)
    if gpus < scaling.least * scaling.slot_resources.get("GPU", 1.0):
        raise ConfigError(
            "ScalingConfig.use_gpu",
            f"the cluster has {gpus:g} GPUs, and {scaling.least} replicas need one each",
            "Add GPU nodes, or set use_gpu=False to train on CPUs",
        )
