"""Settings of a job; names follow Ray Train where it has them. All are checked when they are made."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from raytide.errors import ConfigError


@dataclass(frozen=True)
class ScalingConfig:
    """How many replicas a job has, and what each of them holds.

    Attributes:
        num_workers: ``(least, most)``; one number means always that many.
        use_gpu: One GPU for every replica.
        resources_per_worker: Ray resources of a slot; ``{"GPU": 1}`` or ``{"CPU": 1}`` by default.
        start_workers: Replicas to start with; the least by default.
        backend: ``nccl`` or ``gloo``; by default whatever fits ``use_gpu``.
        standbys: Warm processes kept on free slots, claimed in milliseconds when the job grows.
        replace_stragglers: Replace a replica that is persistently slower than the median.
        virtual_shards: Deterministic mode: every global batch is computed in this many fixed shards and
            summed in a fixed order, so that results are bit for bit the same at any replica count; 0 is off.
    """

    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    start_workers: int | None = None
    backend: str | None = None
    standbys: int = 0
    replace_stragglers: bool = False
    virtual_shards: int = 0

    def __post_init__(self) -> None:
        least, most = self._bounds()
        if least < 1:
            raise _refuse("num_workers", f"{self.num_workers} allows no replica", "Give at least 1")
        if least > most:
            raise _refuse("num_workers", f"the least, {least}, is above the most, {most}", "Give (least, most)")
        start = self.start_workers
        if start is not None and not least <= start <= most:
            raise _refuse("start_workers", f"{start} is outside {least}..{most}", "Give a number inside num_workers")
        if self.backend not in (None, "gloo", "nccl"):
            raise _refuse("backend", f"{self.backend!r} is unknown", "Use 'gloo' or 'nccl'")
        if self.backend == "nccl" and not self.use_gpu:
            raise _refuse("backend", "NCCL needs GPUs", "Set use_gpu=True, or use backend='gloo'")
        for name in ("standbys", "virtual_shards"):
            if getattr(self, name) < 0:
                raise _refuse(name, f"{getattr(self, name)} is negative", "Give 0 or more")
        self._check_resources()

    def _bounds(self) -> tuple[int, int]:
        value = self.num_workers
        pair = (value, value) if isinstance(value, int) else tuple(value)
        if len(pair) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) for n in pair):
            raise _refuse("num_workers", f"{value!r} is no range", "Give a number, or (least, most)")
        return pair[0], pair[1]

    def _check_resources(self) -> None:
        for name, amount in (self.resources_per_worker or {}).items():
            if amount < 0:
                raise _refuse(f"resources_per_worker[{name!r}]", f"{amount} is negative", "Give 0 or more")
        gpus = (self.resources_per_worker or {}).get("GPU", 0)
        if gpus and not self.use_gpu:
            raise _refuse("resources_per_worker['GPU']", "GPUs are asked for but not used", "Set use_gpu=True")

    @property
    def least(self) -> int:
        """The smallest replica count."""
        return self._bounds()[0]

    @property
    def most(self) -> int:
        """The largest replica count."""
        return self._bounds()[1]

    @property
    def first(self) -> int:
        """Replicas to start with."""
        return self.start_workers or self.least

    @property
    def slot_resources(self) -> dict[str, float]:
        """Ray resources of one slot."""
        return dict(self.resources_per_worker or ({"GPU": 1.0} if self.use_gpu else {"CPU": 1.0}))

    @property
    def group_backend(self) -> str:
        """Backend of the replicas' groups."""
        return self.backend or ("nccl" if self.use_gpu else "gloo")


@dataclass(frozen=True)
class FailureConfig:
    """What a job forgives; separate budgets, because a bug is not a lost node.

    Attributes:
        max_failures: Replicas lost (killed processes, lost nodes) over the job's life.
        max_user_errors: Exceptions of the loop answered by a restart from the last checkpoint.
        replace_lost: Start a replacement for a lost replica where a slot is free.
        suspect_s: A replica silent for this long counts as lost.
    """

    max_failures: int = 8
    max_user_errors: int = 0
    replace_lost: bool = True
    suspect_s: float = 5.0

    def __post_init__(self) -> None:
        for name in ("max_failures", "max_user_errors"):
            if getattr(self, name) < 0:
                raise ConfigError(f"FailureConfig.{name}", f"{getattr(self, name)} is negative", "Give 0 or more")
        if self.suspect_s < 1.0:
            problem = f"{self.suspect_s} s is shorter than two heartbeats"
            raise ConfigError("FailureConfig.suspect_s", problem, "Give at least 1 second")


@dataclass(frozen=True)
class CheckpointConfig:
    """When checkpoints are written and how many are kept.

    Attributes:
        num_to_keep: The newest ones that stay; None keeps all.
        every_s: Write one at the next boundary after this many seconds; 0 only when asked.
    """

    num_to_keep: int | None = None
    every_s: float = 0.0

    def __post_init__(self) -> None:
        if self.num_to_keep is not None and self.num_to_keep < 1:
            problem = f"{self.num_to_keep} would keep nothing"
            raise ConfigError("CheckpointConfig.num_to_keep", problem, "Give at least 1, or None to keep all")
        if self.every_s < 0:
            raise ConfigError("CheckpointConfig.every_s", f"{self.every_s} is negative", "Give 0 or more seconds")


@dataclass(frozen=True)
class RunConfig:
    """Name, storage and failure handling of a job.

    Attributes:
        name: The job's name, unique on its cluster; made up if not given.
        storage_path: Where checkpoints go: a folder, or any URL that fsspec knows. ``~/raytide`` by
            default; a folder must be reachable from every node.
        resume_from: Path of a checkpoint to start from, or ``"latest"`` of this job's storage.
        failure_config: What is forgiven.
        checkpoint_config: When checkpoints are written.
        trace_path: Folder for one line per applied step and rank; evidence for tests and debugging.
        progress: Show live progress in ``fit()``.
    """

    name: str | None = None
    storage_path: str | None = None
    resume_from: str | None = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)
    trace_path: str | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        if self.name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", self.name):
            raise ConfigError(
                "RunConfig.name",
                f"{self.name!r} is no valid name",
                "Use up to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit",
            )

    def storage_for(self, job: str) -> str:
        """Root of the job's checkpoints."""
        root = self.storage_path or "~/raytide"
        return f"{root.rstrip('/')}/{job}" if "://" in root else str(Path(root).expanduser() / job)


def _refuse(name: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError(f"ScalingConfig.{name}", problem, remedy)
