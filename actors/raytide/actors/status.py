"""How a job stands, as its master tells the scheduler: the whole of it each time, so that only the last one counts."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ray.exceptions import RayError

from raytide.actors.names import scheduler_actor
from raytide.actors.untyped import get

logger = logging.getLogger(__name__)

REPEAT_S = 10.0
"""Said again after this long even if nothing changed: a scheduler that restarted must not wait for a change."""

RETRY_S = 0.5
ANSWER_S = 10.0


@dataclass(frozen=True)
class JobStatus:
    """A job at one instant.

    Attributes:
        job: Its name.
        phase: ``starting``, ``running``, ``suspended``, ``succeeded``, ``failed`` or ``stopped``, and what is between.
        released: It is over and has given back every slot.
        world_size: Processes that train.
        generation: Number of their membership.
        step: Steps applied.
        epoch: Of the data.
        done: Samples it has trained on.
        samples_per_s: Throughput at this size; 0 while unknown.
        error: Why it failed.
        fault: Whose: ``user``, ``node`` or ``platform``; empty if it did not.
        checkpoint: The last one.
        metrics: The last ones it reported.
    """

    job: str
    phase: str
    released: bool = False
    world_size: int = 0
    generation: int = 0
    step: int = 0
    epoch: int = 0
    done: float = 0.0
    samples_per_s: float = 0.0
    error: str = ""
    fault: str = ""
    checkpoint: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)

    def result_json(self) -> str:
        """What is kept of it when the job has ended."""
        kept = {"status": self.phase, "checkpoint": self.checkpoint, "step": self.step, "epoch": self.epoch}
        return json.dumps({**kept, "metrics": dict(self.metrics)}, default=str)

    @property
    def news(self) -> tuple[object, ...]:
        """What the scheduler must hear at once if it changes."""
        return (self.phase, self.released, self.world_size, self.samples_per_s > 0)


class StatusReporter:
    """Tells the scheduler how a job stands, until it is told that nobody listens any more.

    Args:
        job: Its name.
        status: How it stands now.
    """

    def __init__(self, job: str, status: Callable[[], JobStatus]) -> None:
        self._job = job
        self._status = status
        self._changed = threading.Event()
        self._told: tuple[object, ...] = ()
        threading.Thread(target=self._run, name=f"raytide-status-{job}", daemon=True).start()

    def look(self) -> None:
        """Something may have changed; cheap if nothing has."""
        if self._status().news != self._told:
            self._changed.set()

    def say_again(self) -> None:
        """The scheduler asks."""
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait(REPEAT_S)
            self._changed.clear()
            status = self._status()
            if self._tell(status):
                self._told = status.news
            else:
                threading.Event().wait(RETRY_S)
                self._changed.set()

    def _tell(self, status: JobStatus) -> bool:
        try:
            get(scheduler_actor().status.remote(status), ANSWER_S)
        except (RayError, ValueError) as error:
            logger.info("job %s: the scheduler does not answer: %s", self._job, error)
            return False
        return True
