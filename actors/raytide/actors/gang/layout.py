"""Which process goes where, and what it finds in its environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from raytide.actors.grants import Grant
from raytide.elastic.model import Slot


def slots_of(grant: Grant) -> tuple[Slot, ...]:
    """The slots of a grant in rank order: those of a node beside each other, the node with most first."""
    nodes = sorted(((node, count) for node, count in grant.items() if count > 0), key=lambda item: (-item[1], item[0]))
    return tuple(Slot(node, index) for node, count in nodes for index in range(count))


def grant_of(slots: Sequence[Slot]) -> dict[str, int]:
    """Slots by node, in rank order."""
    grant: dict[str, int] = {}
    for slot in slots:
        grant[slot.node] = grant.get(slot.node, 0) + 1
    return grant


def job_environment(job: str, storage: str, *, resumed: bool) -> dict[str, str]:
    """What every process of a rigid job finds.

    Args:
        job: Its name.
        storage: Its folder.
        resumed: It ran before: after a suspension or a retry it goes on from what it saved.
    """
    found = {"RAYTIDE_JOB": job, "RAYTIDE_CHECKPOINT_DIR": f"{storage.rstrip('/')}/state", "PYTHONUNBUFFERED": "1"}
    return found | ({"RAYTIDE_RESUMED": "1"} if resumed else {})


def gang_environment(slots: Sequence[Slot], rank: int, host: str, port: int) -> dict[str, str]:
    """What ``torch.distributed`` reads with ``init_method="env://"``.

    Args:
        slots: Of the gang, in rank order.
        rank: Of the process.
        host: Address of rank 0's node.
        port: A free one there.
    """
    nodes = list(grant_of(slots))
    node = slots[rank].node
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(len(slots)),
        "LOCAL_RANK": str(sum(1 for slot in slots[:rank] if slot.node == node)),
        "LOCAL_WORLD_SIZE": str(sum(1 for slot in slots if slot.node == node)),
        "NODE_RANK": str(nodes.index(node)),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
    }


def driver_environment(slots: Sequence[Slot], cluster: str, runtime_env: Mapping[str, object]) -> dict[str, str]:
    """What a process that places its own workers finds.

    Args:
        slots: Of the job.
        cluster: Address of the Ray cluster.
        runtime_env: Ray's, which its workers get too.
    """
    nodes = list(grant_of(slots))
    found = {
        "RAYTIDE_NODES": ",".join(nodes),
        "RAYTIDE_SLOTS": str(len(slots)),
        "RAYTIDE_LABEL_SELECTOR": json.dumps({"ray.io/node-id": f"in({','.join(nodes)})"}),
        "RAY_ADDRESS": cluster,
    }
    if runtime_env:  # as Ray's own job submission hands it to a driver
        found["RAY_JOB_CONFIG_JSON_ENV_VAR"] = json.dumps({"runtime_env": dict(runtime_env)}, default=str)
    return found
