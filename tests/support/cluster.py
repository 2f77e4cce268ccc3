"""A real Ray cluster of several logical nodes in one process tree, shared by all tests of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.cluster_utils import Cluster

SLOTS_PER_NODE = 4


@dataclass
class TestCluster:
    """Nodes ``node-a`` (the head) and ``node-b``, and more on demand."""

    __test__ = False

    cluster: Cluster
    extra: list[Any] = field(default_factory=list)

    def add_node(self, name: str, slots: int = SLOTS_PER_NODE) -> Any:
        """Add a node; from the main thread only."""
        node = self.cluster.add_node(num_cpus=slots, labels={"raytide.node": name})
        self.extra.append(node)
        return node

    def kill_node(self, node: Any) -> None:
        """Take a node away without notice."""
        self.extra.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)

    def is_alive(self, node: Any) -> bool:
        """Whether Ray counts the node as alive; it notices a lost one after some seconds."""
        return any(known["Alive"] for known in ray.nodes() if known["NodeID"] == node.node_id)


@contextmanager
def shared_cluster() -> Iterator[TestCluster]:
    """A cluster of two logical nodes, connected; ends with the context."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": SLOTS_PER_NODE,
            "labels": {"raytide.node": "node-a"},
            "include_dashboard": False,
        },
    )
    try:
        cluster.add_node(num_cpus=SLOTS_PER_NODE, labels={"raytide.node": "node-b"})
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield TestCluster(cluster)
    finally:
        ray.shutdown()
        cluster.shutdown()
