"""What a loop can ask about itself, named after ``ray.train.get_context()``."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from raytide.train.session import Session


class Context:
    """The running loop's view of its job."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_world_size(self) -> int:
        """Replicas in the active generation; 1 during a rehearsal."""
        active = self._session.generation
        return active.world_size if active is not None else 1

    def get_world_rank(self) -> int:
        """Rank in the active generation. It changes with the membership; never 0 during a rehearsal."""
        return self._session.rank

    def get_device(self) -> torch.device:
        """Where prepared models and batches live."""
        return self._session.spec.device

    def get_job_name(self) -> str:
        """Name of the job."""
        return self._session.spec.job

    @property
    def step(self) -> int:
        """Optimizer steps applied so far."""
        return self._session.engine.position.step

    @property
    def epoch(self) -> int:
        """The job's epoch."""
        return self._session.engine.position.epoch

    @property
    def generation(self) -> int:
        """Number of the active generation, 0 during a rehearsal."""
        active = self._session.generation
        return active.number if active is not None else 0

    @property
    def ends_step(self) -> bool:
        """True with the last batch of a step: ``optimizer.step()`` acts. Always, unless max_local_batch splits."""
        return self._session.ends_step

    @property
    def stopped(self) -> bool:
        """The ranks have agreed to stop: no more batches will come."""
        return self._session.engine.stopped

    @property
    def rehearsing(self) -> bool:
        """True in a newcomer before it has joined: nothing it does counts; skip effects on the outside."""
        return self._session.inert

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Sum numbers over all ranks. Every rank must call it, at the same place of the program."""
        return self._session.all_reduce(values)

    def stop_training(self) -> None:
        """End training on all ranks together (early stopping); one rank may ask for all.

        Asked behind the last batch of an epoch, it is the last one; asked within an epoch, the step that
        begins next is the last.
        """
        if not self._session.inert:
            self._session.engine.stop_requested = True
