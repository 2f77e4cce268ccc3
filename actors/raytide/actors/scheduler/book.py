"""What the scheduler knows of jobs beside the controller, and what of both has to be written down."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from raytide.actors.scheduler.work import Terms, terms_of
from raytide.actors.status import JobStatus
from raytide.core import Job, JobSpec, JobState
from raytide.core.commands import Command, Refuse, Scale, Start, Stop, Suspend
from raytide.core.events import Crashed, Event, Finished
from raytide.core.lifecycle import ENDED
from raytide.core.model import JobId
from raytide.core.table import JobTable
from raytide.state import JobRow, Work

_ENDING = frozenset({JobState.STOPPING, *ENDED})
_CHANGES = frozenset({JobState.STARTING, JobState.RESIZING, JobState.SUSPENDING, JobState.STOPPING})


@dataclass
class Page:
    """Of one job.

    Attributes:
        work: What its master needs.
        request: Id of the command that is being carried out; empty if none is.
        failures: How often it came to harm, by fault.
        status: The last one its master told.
        terms: What else the scheduler has to know of it.
        owner_seen_s: When its owner last gave a sign, on a clock that only rises.
        written: What of it is in the store, for comparison.
    """

    work: Work
    terms: Terms
    request: str = ""
    failures: Counter[str] = field(default_factory=Counter)
    status: JobStatus | None = None
    owner_seen_s: float = field(default_factory=time.monotonic)
    written: object = None


class Book:
    """Pages of all jobs that have not ended.

    Args:
        table: The controller's.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self.pages: dict[JobId, Page] = {}

    def enter(self, spec: JobSpec, work: Work) -> None:
        """A new job."""
        self.pages[spec.job] = Page(work, terms_of(work))

    def restore(self, row: JobRow, work: Work) -> None:
        """A job that a scheduler before this one knew."""
        self.pages[row.spec.job] = Page(work, terms_of(work), row.request, Counter(row.failures))

    def failed(self, job: JobId, fault: str, reason: str) -> list[Event]:
        """A job came to harm: it queues again, or is given up."""
        page = self.pages.get(job)
        if page is None:
            return []
        page.failures[fault] += 1
        if page.failures[fault] <= page.terms.platform_faults:
            return [Crashed(job, reason)]
        return [Finished(job, f"given up after {page.failures[fault]} faults of the {fault}: {reason}")]

    def size_of(self, job: JobId) -> int:
        """Processes of a job that trained when its master last told; 0 if it did not."""
        page = self.pages.get(job)
        return page.status.world_size if page is not None and page.status is not None else 0

    def orphans(self, now_s: float) -> list[JobId]:
        """Jobs whose owners have given no sign for longer than their lease."""
        return [
            name
            for name, page in self.pages.items()
            if 0 < page.terms.lease_s < now_s - page.owner_seen_s and self._table[name].state not in _ENDING
        ]

    def commanded(self, commands: Iterable[tuple[Command, str]]) -> None:
        """These commands are being carried out."""
        for command, request in commands:
            if isinstance(command, Start | Scale | Suspend | Stop | Refuse) and command.job in self.pages:
                self.pages[command.job].request = request

    def changed(self, now: float, touched: set[JobId] | None) -> list[JobRow]:
        """What has to be written; jobs that ended are forgotten.

        Args:
            now: The clock of the controller.
            touched: Jobs of which something may have changed; None for all.
        """
        rows: list[JobRow] = []
        for name in list(self.pages) if touched is None else sorted(touched & self.pages.keys()):
            page, job = self.pages[name], self._table[name]
            if job.state not in _CHANGES:
                page.request = ""
            seen = self._fingerprint(job, page)
            if seen == page.written:
                continue
            page.written = seen
            rows.append(self._row(now, job, page))
            if job.ended:
                del self.pages[name]
        return rows

    def _fingerprint(self, job: Job, page: Page) -> object:
        return (
            job.state,
            job.shape,
            job.held,
            job.resizes,
            job.spec,
            job.reason,
            self._table.cluster.placement(job.job),
            len(job.measured),
            page.request,
            page.failures.total(),
        )

    def _row(self, now: float, job: Job, page: Page) -> JobRow:
        failed = job.state is JobState.FAILED
        return JobRow(
            spec=job.spec,
            past=self._table.past(now, job),
            failures=dict(page.failures),
            request=page.request,
            error=job.reason if failed else "",
            result=page.status.result_json() if job.ended and page.status is not None else "",
        )
