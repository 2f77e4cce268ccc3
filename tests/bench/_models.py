"""The model and data of the benchmarks."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

FEATURES = 1024


def mlp() -> nn.Sequential:
    """8.4 million parameters."""
    return nn.Sequential(
        nn.Linear(FEATURES, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, FEATURES)
    )


def tensors(length: int, seed: int = 0) -> TensorDataset:
    """Random inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(
        torch.randn(length, FEATURES, generator=generator), torch.randn(length, FEATURES, generator=generator)
    )


class Slices(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The same data sample by sample, so that loader processes have something to do."""

    def __init__(self, length: int) -> None:
        self._data = tensors(length)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = self._data[index]
        return x, y
