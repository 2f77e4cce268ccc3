"""What is left of a job, if every change of what it holds costs seconds without progress.

The controller counts progress from the moment in which it gives a job its slots. That is right once the job reports,
and before that too much by the time that starts and changes take.
"""

from __future__ import annotations

from dataclasses import dataclass

from raytide.core import Job, View
from raytide.policies.lengths import declared_left

_REPORTED = 1e-6
"""A difference of this part of the work is a report, not rounding."""


@dataclass(slots=True)
class _Account:
    """What is known of a job's present stretch.

    Attributes:
        changes: Which one it is.
        since_s: Since when it lasts.
        rate: Work per second in it.
        debt: Work of earlier stretches that was counted and not done.
        seen_s: When it was looked at last.
        left: What the controller said was left then; below 0 once it has counted more than there was.
    """

    changes: tuple[object, ...]
    since_s: float
    rate: float
    debt: float
    seen_s: float
    left: float


class Progress:
    """Work that is left, by job; every change is taken to cost as much as the dearest."""

    def __init__(self) -> None:
        self._change_s = 0.0
        self._accounts: dict[str, _Account] = {}
        self._decided_s = 0.0

    def look(self, view: View) -> None:
        """Notice what changed since the last decision; once in every decision."""
        self._change_s = view.costs.dearest_s
        for job in view.ended:
            self._accounts.pop(job.job, None)
        for job in view:
            self._look_at(view, job)
        self._decided_s = view.now

    def _look_at(self, view: View, job: Job) -> None:
        left, changes = declared_left(view, job), (job.resizes, job.suspensions, job.shape)
        account = self._accounts.get(job.job)
        if account is None:
            account = self._accounts[job.job] = _Account(changes, view.now, 0.0, 0.0, view.now, left)
        if account.changes != changes:
            since_s = max(account.seen_s, self._decided_s)
            account.debt += account.rate * min(self._change_s, since_s - account.since_s)
            account.changes, account.since_s = changes, since_s
            account.rate = _rate(view, job)
        expected = account.left - account.rate * (view.now - account.seen_s)
        if not left and expected < 0.0:
            left = expected
        elif abs(expected - left) > _REPORTED * (job.spec.work or account.left):
            account.debt, account.since_s = 0.0, min(account.since_s, view.now - self._change_s)
        account.seen_s, account.left = view.now, left

    def left(self, job: Job, now: float) -> float:
        """Work that is really left."""
        account = self._accounts[job.job]
        return max(0.0, account.left + account.debt + account.rate * min(self._change_s, now - account.since_s))

    def delay_s(self, job: Job, now: float) -> float:
        """How long it will still make no progress with what it holds."""
        account = self._accounts[job.job]
        return max(0.0, self._change_s - (now - account.since_s)) if account.rate else 0.0


def _rate(view: View, job: Job) -> float:
    """Work per second that the controller counts, or that a declared duration is used up with."""
    if not job.gpus:
        return 0.0
    if job.spec.work is None:
        return view.speed(job).speed(job.requested_gpus) * job.gpus / job.requested_gpus
    return view.speed_at(job, view.cluster.placement(job.job))
