"""A platform for benchmark scripts: a Ray cluster of logical nodes, a scheduler on it, and jobs to submit."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from _support import say
from ray.cluster_utils import Cluster

from raytide.actors.managed import Standing, elastic_submission
from raytide.actors.platform import Platform, start_platform
from raytide.actors.scheduler.info import JobInfo
from raytide.actors.scheduler.settings import PlatformSettings
from raytide.jobs.running import load_job
from raytide.submission.access import hash_token, make_token
from raytide.train import RunConfig, ScalingConfig

WAIT_S = 600.0


@contextmanager
def ray_cluster(nodes: int, slots: int) -> Iterator[Cluster]:
    """A connected Ray cluster of so many nodes with so many slots each; node ``n0`` is the head."""
    head = {"num_cpus": slots, "labels": {"raytide.node": "n0"}, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for number in range(1, nodes):
            cluster.add_node(num_cpus=slots, labels={"raytide.node": f"n{number}"})
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def platform(**settings: Any) -> Iterator[Platform]:
    """A platform on the connected cluster, with an administrator's token and a store of its own."""
    token = make_token()
    with tempfile.TemporaryDirectory() as folder:
        store = settings.pop("store", f"sqlite:///{folder}/platform.db")
        chosen = PlatformSettings(store=store, slot={"CPU": 1.0}, admin_sha256=hash_token(token), **settings)
        start_platform(chosen)
        running = Platform(token)
        try:
            yield running
        finally:
            running.shut_down()


def submit(running: Platform, name: str, module: str, folder: Path, **options: Any) -> JobInfo:
    """Submit a job module. Options: ``workers``, ``start``, ``config``, and those of ``Standing``."""
    workers, start = options.pop("workers", 1), options.pop("start", None)
    job = load_job(module).with_settings(options.pop("config", {}))
    run = RunConfig(name=name, storage_path=str(folder / "store"), trace_path=str(folder / name), progress=False)
    request = job.trainer(ScalingConfig(num_workers=workers, start_workers=start), run).request()
    return running.submit(*elastic_submission(request, Standing(**options)))


def wait_for(running: Platform, name: str, condition: Any, what: str) -> JobInfo:
    """The job, as soon as a condition holds of it."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        info = running.job(name)
        if condition(info):
            return info
        if info.ended or time.monotonic() > deadline_s:
            raise SystemExit(f"waited for {what}: job {name} is {info.state}: {info.reason}\n" + "\n".join(info.story))
        time.sleep(0.05)


def wait_warm(running: Platform, count: int) -> None:
    """Wait until so many standbys are ready."""
    deadline_s = time.monotonic() + WAIT_S
    while sum(running.standbys().values()) < count:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{count} standbys did not come up: {running.standbys()}")
        time.sleep(0.2)
    say(f"{count} standbys are warm")


def kill_scheduler(running: Platform) -> None:
    """kill -9."""
    os.kill(running.pid(), signal.SIGKILL)
