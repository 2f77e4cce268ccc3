"""What a rigid job is, as its master gets it. Without PyTorch: masters of rigid jobs start without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GANG, DRIVER = "gang", "driver"


@dataclass(frozen=True)
class RigidSettings:
    """A gang of processes that never changes its size.

    Attributes:
        run_id: Of the run; a journal of another one is not this job's.
        entrypoint: The command that each process runs.
        gpus: Its slots.
        launch: ``gang``: one process on each slot. ``driver``: one process, which places its own workers.
        storage: Folder of its logs and of what it saves when it is suspended.
        resources: Ray resources of one slot.
        runtime_env: Ray's, for its processes.
        user_errors: How often it is started again after it ended with an error.
        lost_nodes: How often after a node or a process was lost.
        grace_s: How long it may take to save and leave when it is told to.
    """

    run_id: str
    entrypoint: str
    gpus: int
    launch: str
    storage: str
    resources: Mapping[str, float]
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    user_errors: int = 0
    lost_nodes: int = 8
    grace_s: float = 30.0
