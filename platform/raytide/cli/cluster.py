"""Finding a cluster, and a job on it, from another shell."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from raytide.errors import RaytideError, RequestRefused

if TYPE_CHECKING:
    from raytide.actors.client import RayJobHandle
    from raytide.actors.platform import Platform
    from raytide.actors.views import JobView

POLL_S, SETTLE_LIMIT_S = 0.2, 120.0
NO_EVENTS = 1 << 30
"""Asks for a view without the log."""


@contextmanager
def connected() -> Iterator[None]:
    """Be connected to the running cluster; one that was connected before stays so.

    Raises:
        RequestRefused: No cluster runs, or it went away meanwhile.
    """
    import ray

    from raytide.actors.launcher import find_cluster

    if ray.is_initialized():
        yield
        return
    address = find_cluster()
    if address is None:
        raise RequestRefused(
            "no Ray cluster runs on this machine: start a platform with `raytide up`, a job with `raytide run`, "
            "a cluster with `ray start --head`, or set RAY_ADDRESS to the one you mean"
        )
    match_authentication(os.environ, Path.home())
    try:
        # Replicas' prints belong to the shell that runs the job.
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RequestRefused(f"the Ray cluster at {address} does not answer: {_first_line(error)}") from error
    try:
        yield
    except ray.exceptions.RayActorError as error:
        raise RequestRefused("the job's master is gone: the job ended, or its cluster did") from error
    finally:
        ray.shutdown()


def match_authentication(environment: MutableMapping[str, str], home: Path) -> None:
    """Let this process do what ``ray start`` does: send Ray's token if there is one and nobody has said otherwise."""
    from raytide.doctor.gather_ray import has_token

    if "RAY_AUTH_MODE" not in environment and has_token(environment, home):
        environment["RAY_AUTH_MODE"] = "token"


@contextmanager
def platform() -> Iterator[Platform]:
    """The platform of the running cluster, in the name of the user's token.

    Raises:
        RequestRefused: None runs.
    """
    from raytide.actors.platform import find_platform
    from raytide.submission.local_token import local_token

    token = local_token(os.environ, Path.home())
    with connected():
        yield find_platform(token)


@contextmanager
def job(name: str | None) -> Iterator[RayJobHandle]:
    """A handle to the job called ``name``, or to the only one that runs."""
    from raytide.actors.client import find_job

    with connected():
        yield find_job(name or only_job(views()))


def views() -> list[JobView]:
    """The jobs of the connected cluster, without their logs; one whose master just went is left out."""
    from ray.exceptions import RayActorError

    from raytide.actors.client import find_job, list_jobs

    found = []
    for name in list_jobs():
        try:
            found.append(find_job(name).view(NO_EVENTS))
        except (RayActorError, RaytideError):
            continue
    return found


def only_job(known: list[JobView]) -> str:
    """The name of the job that is meant when none is named.

    Raises:
        RequestRefused: None runs, or several do.
    """
    running = [view.name for view in known if not view.ended] or [view.name for view in known]
    if len(running) == 1:
        return running[0]
    if not running:
        raise RequestRefused("no job is running: start one with `raytide run`")
    raise RequestRefused(f"{len(running)} jobs are running: name the one you mean ({', '.join(running)})")


def size_of(handle: RayJobHandle) -> int:
    """The job's replica count, once what is under way is done: a job that starts has none yet."""
    deadline_s = time.monotonic() + SETTLE_LIMIT_S
    while (view := handle.view(NO_EVENTS)).phase not in ("running", "suspended") and not view.ended:
        if time.monotonic() > deadline_s:
            raise RequestRefused(f"job {view.name} is {view.phase} since {SETTLE_LIMIT_S:.0f} s: try again later")
        time.sleep(POLL_S)
    return view.world_size


def node_names() -> dict[str, str]:
    """What people call the nodes, by their ids."""
    from raytide.actors.slots import cluster_view

    return {node.node: node.name for node in cluster_view({})}


def use_working_folder() -> None:
    """Let modules of the current folder be imported, as ``python -m`` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
