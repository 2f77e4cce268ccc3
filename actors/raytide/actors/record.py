"""What a master remembers for people: events, metrics, throughput; and its journal on disk."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from raytide.actors.run_file import RunFile
from raytide.actors.views import Event
from raytide.elastic import journal
from raytide.elastic.model import ReplicaId
from raytide.elastic.state import JobState
from raytide.train.services import Report


@dataclass
class Record:
    """The log of one job.

    Attributes:
        events: What was noted, oldest first; after a restart of the master, the last 200 of before.
        reports: Rank 0's reports, by place in the program; a repeated one replaces the first. After a restart of
            the master, the last 200 of before.
    """

    events: list[Event] = field(default_factory=list)
    reports: dict[tuple[int, int, int], Report] = field(default_factory=dict)

    def note(self, kind: str, text: str, data: dict[str, Any]) -> None:
        """Append an event."""
        number = self.events[-1].number + 1 if self.events else 0
        self.events.append(Event(number, time.time(), kind, text, data))

    def since(self, number: int) -> tuple[Event, ...]:
        """Events from this number on."""
        return tuple(event for event in self.events if event.number >= number)

    def take(self, report: Report) -> None:
        """Keep the lowest rank's report of each place."""
        key = (report.step, report.epoch, report.index)
        known = self.reports.get(key)
        if known is None or report.rank <= known.rank:
            self.reports[key] = report

    def metrics(self) -> dict[str, float]:
        """The newest metrics."""
        if not self.reports:
            return {}
        return dict(self.reports[max(self.reports)].metrics)

    def rows(self) -> list[dict[str, float]]:
        """All metrics, in the program's order."""
        return [
            {"step": r.step, "epoch": r.epoch, **r.metrics} for _, r in sorted(self.reports.items(), key=lambda i: i[0])
        ]


class JournalFile:
    """The master's state on disk, replaced as a whole whenever something durable changed.

    Args:
        root: Folder (any fsspec URL) of the job.
        run_id: Of the run; the journal of another one is ignored and overwritten.
    """

    def __init__(self, root: str, run_id: str) -> None:
        self._file = RunFile(root, run_id)

    def save(self, state: JobState, names: dict[ReplicaId, str], record: Record) -> None:
        """Write everything."""
        self._file.save(
            {
                "state": json.loads(journal.dumps(state)),
                "hosts": names,
                "events": [asdict(event) for event in record.events[-200:]],
                "reports": [asdict(report) for report in list(record.reports.values())[-200:]],
            }
        )

    def load(self) -> tuple[JobState, dict[ReplicaId, str], Record] | None:
        """What the last master of this run wrote; None for a new run."""
        whole = self._file.load()
        if whole is None:
            return None
        record = Record([Event(**event) for event in whole["events"]])
        for report in whole["reports"]:
            record.take(Report(**report))
        return journal.loads(json.dumps(whole["state"])), whole["hosts"], record

    def remove(self) -> None:
        """The job is over: a new one of this name starts afresh."""
        self._file.remove()
