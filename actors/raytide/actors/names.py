"""Names by which the platform's actors are found."""

from __future__ import annotations

import ray
from ray.exceptions import RayError

from raytide.actors.untyped import Handle, get

NAMESPACE = "raytide"
SCHEDULER = "scheduler"
DEMAND_PREFIX = "raytide-demand:"
"""Of placement groups that ask for nodes."""

MASTER_PREFIX, STANDBY_PREFIX = "master:", "standby:"
CLAIM_S = 2.0
"""Longer than that, and a process of its own is up nearly as soon."""


def master_name(job: str) -> str:
    """Of a job's master."""
    return f"{MASTER_PREFIX}{job}"


def scheduler_actor() -> Handle:
    """The scheduler of the connected cluster.

    Raises:
        ValueError: There is none.
    """
    return ray.get_actor(SCHEDULER, namespace=NAMESPACE)


def claim_standby(node: str) -> str:
    """The name of a warm process on a node, claimed from the scheduler; empty if it has none."""
    try:
        name: str = get(scheduler_actor().claim_standby.remote(node), CLAIM_S)
    except (RayError, ValueError):
        return ""
    return name


def has_scheduler() -> bool:
    """Whether a platform runs on the connected cluster."""
    try:
        scheduler_actor()
    except ValueError:
        return False
    return True
