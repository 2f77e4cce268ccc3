"""Settings of the data loader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raytide.errors import ConfigError
from raytide.train.data.checks import check_at_least, check_positive


@dataclass(frozen=True)
class LoaderOptions:
    """How batches are loaded; most names and meanings are those of ``torch.utils.data.DataLoader``.

    Attributes:
        num_workers: Processes that load ahead; 0 loads in the training process when asked.
        prefetch_factor: Batches loaded ahead per worker.
        collate_fn: Makes a batch of a list of samples; ``None`` means ``default_collate``.
        pin_memory: Copy batches to page-locked memory, which speeds up their way to a GPU. Ignored on
            machines without an accelerator.
        worker_init_fn: Called once in each worker with its number.
        sample_rng: Seed the global generators of torch, numpy and Python from (seed, epoch, index)
            before each sample, so that augmentation does not depend on the number of replicas or
            workers. The generators of the training process are left as they were.
        batch_getitems: Use the dataset's ``__getitems__`` where it has one. The dataset then loads a
            whole batch by itself, and the generators are seeded once per call, from the first index:
            random augmentation in such a dataset depends on how batches are split. ``False`` calls
            ``__getitem__`` for each sample. (``torch.utils.data.Subset`` is looked through either way.)
        seed: Seed of ``sample_rng``; the job's seed.
        timeout_s: A worker that gives no answer for this long is an error, in seconds.
    """

    num_workers: int = 0
    prefetch_factor: int = 2
    collate_fn: Callable[[list[Any]], Any] | None = None
    pin_memory: bool = False
    worker_init_fn: Callable[[int], None] | None = None
    sample_rng: bool = True
    batch_getitems: bool = True
    seed: int = 0
    timeout_s: float = 300.0

    def __post_init__(self) -> None:
        check_at_least("num_workers", self.num_workers, 0, "processes")
        check_positive("prefetch_factor", self.prefetch_factor, "batches per worker")
        check_at_least("seed", self.seed, 0, "(any whole number)")
        if not self.timeout_s > 0:
            raise ConfigError("timeout_s", f"{self.timeout_s} is not positive", "Give a time in seconds.")
        for field in ("collate_fn", "worker_init_fn"):
            value = getattr(self, field)
            if value is not None and not callable(value):
                raise ConfigError(field, f"{value!r} cannot be called", "Pass a function, or None.")

    @property
    def depth(self) -> int:
        """How many batches are loaded ahead of the one in use."""
        return self.num_workers * self.prefetch_factor
