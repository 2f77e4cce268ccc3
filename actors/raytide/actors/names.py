"""Names by which the platform's actors are found."""

from __future__ import annotations

import ray

from raytide.actors.untyped import Handle

NAMESPACE = "raytide"
SCHEDULER = "scheduler"


def master_name(job: str) -> str:
    """Of a job's master."""
    return f"master:{job}"


def scheduler_actor() -> Handle:
    """The scheduler of the connected cluster.

    Raises:
        ValueError: There is none.
    """
    return ray.get_actor(SCHEDULER, namespace=NAMESPACE)


def has_scheduler() -> bool:
    """Whether a platform runs on the connected cluster."""
    try:
        scheduler_actor()
    except ValueError:
        return False
    return True
