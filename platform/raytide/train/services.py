"""What a session needs of the process that hosts it: an address for messages, storage, a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from raytide.elastic.messages import FromReplica
from raytide.elastic.model import Position, ReplicaId


@dataclass(frozen=True)
class Report:
    """Metrics reported by one rank at one place of the program."""

    step: int
    epoch: int
    index: int
    rank: int
    metrics: Mapping[str, float]


class Outbox(Protocol):
    """Takes messages for the master; must not block."""

    def send(self, message: FromReplica) -> None: ...
    def report(self, report: Report) -> None: ...


@dataclass(frozen=True)
class SessionSpec:
    """One replica's part in a job.

    Attributes:
        job: Name of the job.
        replica: Name of the replica.
        initial: It starts with the job; otherwise it is a newcomer that rehearses first.
        position: Where the job starts from, or about where it is (for a newcomer).
        checkpoint: Path of the checkpoint the job starts from, empty for none.
        max_replicas: Upper bound of the world size.
        storage: Where checkpoints go, empty for nowhere.
        keep_checkpoints: How many of them stay, None for all.
        checkpoint_every_s: Write one at the next boundary after this many seconds, 0 for never.
        virtual_shards: Deterministic mode: split every global batch into this many fixed shards; 0 is off.
        trace_path: Write a line for every applied step to a file in this folder, empty for none.
        device: Where models and batches live.
    """

    job: str
    replica: ReplicaId
    initial: bool
    position: Position = field(default_factory=Position)
    checkpoint: str = ""
    max_replicas: int = 1
    storage: str = ""
    keep_checkpoints: int | None = None
    checkpoint_every_s: float = 0.0
    virtual_shards: int = 0
    trace_path: str = ""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def on(self, device: torch.device) -> SessionSpec:
        """The same part on another device."""
        return replace(self, device=device)


def plain_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Metrics as floats, tensors and NumPy scalars included."""
    return {str(key): float(value) for key, value in metrics.items()}
