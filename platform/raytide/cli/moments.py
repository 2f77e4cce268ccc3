"""A job's log told as a story: the moments at which its membership changed, in words and with their cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from raytide.train.result import Result


class LogEntry(Protocol):
    """An event of a job's log: :class:`raytide.actors.views.Event`, or a row of ``Result.events``."""

    @property
    def time_s(self) -> float: ...
    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Moment:
    """A change of membership.

    Attributes:
        time_s: Seconds since the job's first generation.
        what: ``start``, ``grow``, ``shrink``, ``migrate``, ``lost``, ``recovered`` or ``end``.
        label: The same in words.
        world_size: Replicas from then on.
        prepare_s: How long newcomers prepared for it while the others trained.
    """

    time_s: float
    what: str
    label: str
    world_size: int
    step: int = 0
    pause_s: float = 0.0
    bytes_moved: int = 0
    recovery_s: float = 0.0
    prepare_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


_ENDS = frozenset({"succeeded", "stopped", "failed"})


def moments(log: Iterable[LogEntry]) -> list[Moment]:
    """The moments of a job, oldest first."""
    story = _Story()
    for entry in log:
        story.take(entry)
    return story.found


def story_of(result: Result) -> list[Moment]:
    """The moments of a finished job."""
    return moments(cast("Iterable[LogEntry]", result.events.itertuples()))


@dataclass
class _Story:
    """What is known after some entries of the log."""

    found: list[Moment] = field(default_factory=list)
    members: tuple[str, ...] = ()
    origin_s: float | None = None
    wanted_s: float | None = None
    """Since when newcomers prepare: the oldest request not met, or the recovery that replaces a lost one."""

    def take(self, entry: LogEntry) -> None:
        if entry.kind == "generation":
            self._generation(entry)
        elif self.origin_s is None:
            return
        elif entry.kind == "request":
            self.wanted_s = entry.time_s if self.wanted_s is None else self.wanted_s
        elif entry.kind == "lost":
            label = f"rank {entry.data.get('rank', '?')} lost"
            size = max(0, len(self.members) - 1)
            self.found.append(Moment(entry.time_s - self.origin_s, "lost", label, size))
        elif entry.kind in _ENDS:
            self.found.append(Moment(entry.time_s - self.origin_s, "end", entry.kind, len(self.members)))

    def _generation(self, entry: LogEntry) -> None:
        self.origin_s = entry.time_s if self.origin_s is None else self.origin_s
        data, now = entry.data, tuple(entry.data["members"])
        what, label = _name(self.members, now, planned=bool(data["planned"]))
        wanted_s = self.wanted_s if what in ("grow", "migrate") and self.wanted_s is not None else entry.time_s
        self.found.append(
            Moment(
                time_s=entry.time_s - self.origin_s,
                what=what,
                label=label,
                world_size=len(now),
                step=data["step"],
                pause_s=data["pause_s"],
                bytes_moved=data["bytes_moved"],
                recovery_s=data["recovery_s"],
                prepare_s=entry.time_s - wanted_s,
            )
        )
        self.members = now
        self.wanted_s = entry.time_s if what == "recovered" else None


def _name(before: tuple[str, ...], now: tuple[str, ...], *, planned: bool) -> tuple[str, str]:
    joined, left = set(now) - set(before), set(before) - set(now)
    size = f"{len(before)} → {len(now)}"
    if not before:
        return "start", f"start with {len(now)}"
    if not planned:
        return "recovered", f"recovered, {size}"
    if joined and left:
        return "migrate", "migrate" if len(now) == len(before) else f"migrate, {size}"
    return ("grow", f"grow {size}") if joined else ("shrink", f"shrink {size}")
