"""The calls of a training loop in one process, without raytide: the reference for what a loop does.

``PlainTraining(module, monkeypatch)`` replaces ``prepare``, ``epochs``, ``batches``, ``report`` and
``get_context`` in a job module. In a rehearsal (what a newcomer's loop goes through while the old
members train) there is one epoch of one batch, whose steps change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset


class PlainTraining:
    def __init__(self, module: ModuleType, monkeypatch: pytest.MonkeyPatch, rehearsal: bool = False) -> None:
        self.rehearsal = rehearsal
        self.reports: list[dict[str, float]] = []
        self.checkpoints: list[int] = []
        self.prepared: tuple[Any, ...] = ()
        self.steps = 0
        for call in ("prepare", "epochs", "batches", "report"):
            monkeypatch.setattr(module, call, getattr(self, call))
        monkeypatch.setattr(module, "get_context", lambda: self)

    def prepare(self, *objects: Any) -> Any:
        self.prepared = objects
        for item in objects:
            if self.rehearsal and hasattr(item, "step"):
                item.step = lambda: None
        return objects if len(objects) > 1 else objects[0]

    def epochs(self, total: int) -> Iterator[int]:
        yield from range(1 if self.rehearsal else total)

    def batches(
        self,
        dataset: Dataset[Any],
        *,
        global_batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        num_workers: int = 0,
        max_local_batch: int | None = None,
        train: bool = True,
    ) -> Iterator[Any]:
        order = torch.Generator().manual_seed(seed + self.steps)
        for batch in DataLoader(dataset, batch_size=global_batch_size, shuffle=shuffle, generator=order):
            self.steps += train
            yield batch
            if self.rehearsal:
                return

    def report(self, metrics: Mapping[str, float], checkpoint: bool = False) -> None:
        assert all(isinstance(value, float) for value in metrics.values())
        if checkpoint:
            self.checkpoints.append(len(self.reports))
        self.reports.append(dict(metrics))

    def all_reduce(self, values: list[float]) -> list[float]:
        return values

    def get_world_size(self) -> int:
        return 1

    def get_world_rank(self) -> int:
        return 0
