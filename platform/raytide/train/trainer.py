"""``ElasticTrainer``: from a training loop to a running elastic job."""

from __future__ import annotations

import importlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from raytide.errors import ConfigError
from raytide.train.checkpoint import CheckpointStore
from raytide.train.config import RunConfig, ScalingConfig
from raytide.train.handle import JobHandle
from raytide.train.result import Result

LAUNCHER = "raytide.actors.launcher:RayLauncher"
"""Where jobs run. By name, because imports point from actors to train and never back."""


@dataclass(frozen=True)
class JobRequest:
    """A job to be launched; the fields of :class:`ElasticTrainer`, checked."""

    name: str
    loop: Callable[[dict[str, Any]], object]
    config: dict[str, Any]
    scaling: ScalingConfig
    run: RunConfig
    checkpoint: str = ""


class Launcher(Protocol):
    """Starts jobs somewhere."""

    def launch(self, request: JobRequest) -> JobHandle: ...


class ElasticTrainer:
    """Trains a PyTorch loop on a number of replicas that may change while it runs.

    Args:
        train_loop_per_worker: The loop: called once in every replica with ``train_loop_config``.
        train_loop_config: Its argument.
        scaling_config: How many replicas, of what.
        run_config: Name, storage, failure handling.

    Example:
        >>> result = ElasticTrainer(loop, scaling_config=ScalingConfig(num_workers=(1, 8))).fit()
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[[dict[str, Any]], object],
        *,
        train_loop_config: dict[str, Any] | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        if not callable(train_loop_per_worker):
            problem = f"a {type(train_loop_per_worker).__name__} cannot be called"
            raise ConfigError("ElasticTrainer(train_loop_per_worker)", problem, "Give a function of one argument")
        self._loop = train_loop_per_worker
        self._config = dict(train_loop_config or {})
        self._scaling = scaling_config or ScalingConfig()
        self._run = run_config or RunConfig()

    def start(self) -> JobHandle:
        """Start the job and return a handle to the running one.

        Raises:
            ConfigError: Something is wrong with the settings, the loop or the storage; nothing was started.
            RequestRefused: The cluster has not enough free slots.
        """
        return self._launcher().launch(self.request())

    def fit(self) -> Result:
        """Run the job to its end, showing its progress.

        Returns:
            Metrics, checkpoint and resize history.

        Raises:
            ConfigError, RequestRefused: As :meth:`start`.
            JobFailed: The job failed; a :class:`~raytide.errors.LoopError` carries the rank and traceback.
        """
        handle = self.start()
        try:
            return handle.result(progress=self._run.progress)
        except KeyboardInterrupt:
            handle.stop()
            raise
        finally:
            handle.close()

    def request(self) -> JobRequest:
        """The job as it would be launched; checks storage and settings, starts nothing.

        Raises:
            ConfigError: Something is wrong with them.
        """
        name = self._run.name or f"job-{time.strftime('%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
        root = f"{self._run.storage_for(name)}/checkpoints"
        store = CheckpointStore(root)
        store.check_writable()
        checkpoint = self._run.resume_from or ""
        if checkpoint == "latest":
            latest = store.latest()
            if latest is None:
                remedy = "Leave resume_from out to start afresh, or give the path of a checkpoint"
                raise ConfigError("RunConfig.resume_from", f"there is no complete checkpoint in {root}", remedy)
            checkpoint = latest.path
        return JobRequest(name, self._loop, self._config, self._scaling, replace(self._run, name=name), checkpoint)

    @staticmethod
    def _launcher() -> Launcher:
        module, _, attribute = LAUNCHER.partition(":")
        return cast(Launcher, getattr(importlib.import_module(module), attribute)())
