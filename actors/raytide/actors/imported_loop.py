"""A training loop that is imported where it runs, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class ImportedLoop:
    """Stands for ``package.module:function``; what submits a job need not have the package.

    Attributes:
        path: Where the function is.
    """

    path: str

    def __call__(self, config: dict[str, Any]) -> object:
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)(config)
