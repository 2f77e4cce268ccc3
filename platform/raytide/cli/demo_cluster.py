"""A real Ray cluster of two logical nodes with two slots each, in one process tree."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SLOTS_PER_NODE = 2
NODES = ("node-a", "node-b")


@contextmanager
def two_nodes() -> Iterator[str]:
    """Start the cluster, connect to it, and end it afterwards; yields its address. For the main thread."""
    import ray
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.WARNING)  # it tells of every address it writes
    cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **_node(NODES[0])})
    try:
        cluster.add_node(**_node(NODES[1]))
        # Ray reports a killed worker at length and has no public call against it; the demo does it in a line.
        ray._private.worker._worker_logs_enabled = False
        ray.init(address=cluster.address, logging_level=logging.WARNING, log_to_driver=False)
        yield cluster.address
    finally:
        ray.shutdown()
        ray._private.worker._worker_logs_enabled = True
        cluster.shutdown()  # type: ignore[no-untyped-call] # Ray does not type it


def _node(name: str) -> dict[str, Any]:
    return {"num_cpus": SLOTS_PER_NODE, "labels": {"raytide.node": name}}
