"""What can go wrong while samples are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from raytide.errors import RaytideError

_SHOWN_INDICES = 16


def describe_indices(indices: Sequence[int]) -> str:
    """Return a list of indices for a message, shortened if it is long."""
    shown = ", ".join(str(index) for index in indices[:_SHOWN_INDICES])
    more = f", ... {len(indices)} in all" if len(indices) > _SHOWN_INDICES else ""
    return f"[{shown}{more}]"


class DataLoadError(RaytideError):
    """Loading a batch failed.

    Attributes:
        where: Who was loading: ``data worker 1 (pid 4711)``, or ``the training process``.
        indices: The indices it was asked for; empty if it had none at the time.
        detail: What happened, possibly with the worker's traceback.
    """

    def __init__(self, where: str, indices: Sequence[int], detail: str) -> None:
        super().__init__(where, tuple(indices), detail)
        self.where = where
        self.indices = tuple(indices)
        self.detail = detail

    def __str__(self) -> str:
        doing = f", while loading samples {describe_indices(self.indices)}" if self.indices else ""
        return f"{self.where}{doing}: {self.detail}"


class SampleError(DataLoadError):
    """The dataset, ``collate_fn`` or ``worker_init_fn`` raised; ``detail`` is the original traceback."""


class WorkerDiedError(DataLoadError):
    """A data worker process ended without being asked to."""


class WorkerTimeoutError(DataLoadError):
    """A data worker gave no answer within ``LoaderOptions.timeout_s``."""


class LoaderClosedError(DataLoadError):
    """The loader was closed, by this or another thread, while a pass was under way."""
