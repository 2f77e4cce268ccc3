"""What a finished job gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raytide.train.checkpoint import Checkpoint

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """Outcome of a job.

    Attributes:
        job: Its name.
        status: ``succeeded`` or ``stopped`` (a failed job raises instead).
        metrics: The last metrics reported.
        metrics_dataframe: All of them; columns ``step``, ``epoch`` and the reported names.
        checkpoint: The newest complete checkpoint, if there is one.
        resizes: One row per generation: ``time_s`` (since the first one), ``generation``, ``world_size``,
            ``step``, ``planned``, ``pause_s``, ``transfer_s``, ``bytes_moved``, ``recovery_s``.
        events: The job's whole log; columns ``time_s``, ``kind``, ``text``.
    """

    job: str
    status: str
    metrics: dict[str, float]
    metrics_dataframe: pd.DataFrame
    checkpoint: Checkpoint | None
    resizes: pd.DataFrame
    events: pd.DataFrame = field(repr=False)

    @property
    def path(self) -> str | None:
        """Path of the checkpoint."""
        return self.checkpoint.path if self.checkpoint else None


@dataclass(frozen=True)
class RequestCost:
    """What a request to a running job cost.

    Attributes:
        world_size: Replicas afterwards.
        generation: Number of the generation that answered it.
        pause_s: The longest time any member trained nothing because of it.
        transfer_s: The part of it in which state moved.
        bytes_moved: State sent.
        prepare_s: From the request until everybody was ready, while training went on.
        total_s: From the request to its completion.
        path: The checkpoint written, if any.
    """

    world_size: int
    generation: int
    pause_s: float
    transfer_s: float
    bytes_moved: int
    prepare_s: float
    total_s: float
    path: str = ""


RESIZE_COLUMNS = (
    "time_s",
    "generation",
    "world_size",
    "step",
    "planned",
    "pause_s",
    "transfer_s",
    "bytes_moved",
    "recovery_s",
)


def resize_history(events: list[dict[str, Any]]) -> pd.DataFrame:
    """The resizes among a job's events."""
    import pandas as pd  # noqa: PLC0415 - a second of import that replicas and masters need not pay

    rows = [{"time_s": e["time_s"], **e["data"]} for e in events if e["kind"] == "generation"]
    frame = pd.DataFrame(rows, columns=list(RESIZE_COLUMNS))
    if len(frame):
        frame["time_s"] = frame["time_s"] - frame["time_s"].iloc[0]
    return frame
