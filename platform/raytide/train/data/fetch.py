"""Make one batch of a list of indices, in a worker or in the training process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Subset, TensorDataset, default_collate

from raytide.train.data.sample_rng import sample_keys, seed_generators

if TYPE_CHECKING:
    from raytide.train.data.options import LoaderOptions


class AbandonedError(Exception):
    """Nobody wants the batch any more."""


def _never() -> bool:
    return False


class Fetcher:
    """Loads and collates batches of one dataset.

    A ``Subset`` is resolved to its base dataset with translated indices: its own ``__getitems__`` would
    otherwise hide the single samples from the sample generator, and a ``TensorDataset`` from the fast
    path. Sample keys always use the outer index, the one in the epoch's order.
    """

    def __init__(self, dataset: Any, options: LoaderOptions) -> None:
        self._base, self._translate = _look_through(dataset)
        self._options = options
        self._collate = options.collate_fn or default_collate
        self._is_table = type(self._base) is TensorDataset and self._collate is default_collate
        batched = getattr(self._base, "__getitems__", None) if options.batch_getitems else None
        self._getitems: Callable[[list[int]], Any] | None = batched if callable(batched) else None

    @property
    def is_random(self) -> bool:
        """Whether fetching may touch the global generators at all."""
        return self._options.sample_rng and not self._is_table

    def fetch(self, epoch: int, indices: Sequence[int], abandoned: Callable[[], bool] = _never) -> Any:
        """Return the collated batch of ``indices``.

        Args:
            epoch: Enters the samples' seeds.
            indices: Indices into the dataset as the user passed it.
            abandoned: Asked before every sample; true ends the work.

        Raises:
            AbandonedError: ``abandoned`` said so.
            Exception: Whatever the dataset or ``collate_fn`` raised.
        """
        inner = self._translate(indices)
        if self._is_table:
            rows = torch.tensor(inner)
            return [column[rows] for column in self._base.tensors]
        keys = sample_keys(self._options.seed, epoch, indices) if self._options.sample_rng else None
        if self._getitems is not None:
            if keys:
                seed_generators(keys[0])
            return self.collate(self._getitems(list(inner)))
        samples = []
        for position, index in enumerate(inner):
            if abandoned():
                raise AbandonedError
            if keys:
                seed_generators(keys[position])
            samples.append(self._base[index])
        return self.collate(samples)

    def collate(self, samples: list[Any]) -> Any:
        """Make a batch of loaded samples."""
        return self._collate(samples)


def _look_through(dataset: Any) -> tuple[Any, Callable[[Sequence[int]], Sequence[int]]]:
    """Return the dataset below any plain ``Subset`` and the translation of indices to it."""
    layers: list[Sequence[int]] = []
    # Subclasses may do more than select, so only the exact type is looked through.
    while type(dataset) is Subset:
        layers.append(dataset.indices)
        dataset = dataset.dataset

    def translate(indices: Sequence[int]) -> Sequence[int]:
        for layer in layers:
            indices = [int(layer[index]) for index in indices]
        return indices

    return dataset, translate
