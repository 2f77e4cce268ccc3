"""Finish-time fairness: those who would be delayed most by sharing choose first.

Source: Mahajan et al., *Themis: Fair and Efficient GPU Cluster Scheduling*, NSDI 2020, sections 4 and 5.

Rule: a job's *rho* is its time in the shared cluster (up to now, and to its end with what it has, or with its least if
it has nothing) over the time it would take with the cluster to itself, times the mean number of jobs that were there
while it was. GPUs are leased; all leases end together, every ``lease_s``, and what becomes free in between is given out
at once until then. Of the jobs that can use more, the fifth with the highest rho choose first: one replica at a time
goes where it lowers rho by the largest factor, which raises the product of ``1 / rho`` most; what they leave goes to
the others by the same rule. Nobody is given a replica that does not lower its rho.
Limits: the auction is without its hidden payments, which keep tenants honest about their estimates; the controller
makes the estimates here. Placement has no part in the bids. Without declared work or duration, a job counts as having
left what it has had, and one that has had nothing comes first.
Starvation: possible. Rho grows while a job waits, and at the end of a lease the highest one is served from the whole
cluster; but that of a short job grows faster, so a long one waits while more short ones come than there is room for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from raytide.core import Decision, EventDriven, Job, View
from raytide.policies.budget import needs
from raytide.policies.lengths import work_in_all, work_left
from raytide.policies.shares import Shares

LEASE_S = 1200.0
CHOOSE_FIRST = 0.2
"""The part of the jobs to which GPUs are offered first; both as the paper recommends."""


class Ftf:
    """Leases for those who are worst off.

    Args:
        lease_s: After this time all jobs compete anew.
        choose_first: Part of the jobs that choose first, at least one.
    """

    name = "ftf"
    clock = EventDriven()

    def __init__(self, lease_s: float = LEASE_S, choose_first: float = CHOOSE_FIRST) -> None:
        self._lease_s = lease_s
        self._choose_first = choose_first
        self._lease_ends_s = 0.0
        self._contention = _Contention()

    def decide(self, view: View) -> Decision:
        """Renew what still runs, then offer the rest."""
        self._contention.observe(view)
        rho = {job.job: self.rho(view, job) for job in view}
        ordered = sorted(view, key=lambda job: (-rho[job.job], job.seniority))
        shares = Shares(view, ordered)
        if view.now < self._lease_ends_s:
            _renew(shares, ordered)
        else:
            self._lease_ends_s = (math.floor(view.now / self._lease_s) + 1) * self._lease_s
        self._offer(view, shares, ordered)
        return Decision(shares.shapes(), wake_at_s=self._lease_ends_s if view.jobs else None)

    def rho(self, view: View, job: Job) -> float:
        """By which factor sharing delays a job: 1 is fair; infinite if nothing is known of it yet."""
        role, speed = job.spec.roles[0], view.speed(job).speed
        most = max(role.least, min(role.most, view.total_gpus // max(1, role.gpus)))
        best = max(speed(count * role.gpus) for count in range(role.least, most + 1))
        alone_s = work_in_all(view, job) / best
        shared_s = _finish_s(view, job, (job.gpus // role.gpus if role.gpus else 0) or role.least)
        return shared_s / alone_s / self._contention.mean(view.now, job) if alone_s else math.inf

    def _offer(self, view: View, shares: Shares, ordered: Sequence[Job]) -> None:
        wanting = [job.job for job in ordered if shares.count[job.job] < job.spec.roles[0].most]
        first = set(wanting[: max(1, math.floor(len(wanting) * self._choose_first))])
        shares.expand(lambda job, count: _gain(view, job, count) if job.job in first else 0.0)
        shares.expand(lambda job, count: _gain(view, job, count))

    def why_waiting(self, view: View, job: Job) -> str:
        """How far it is delayed, and what is missing."""
        mine = self.rho(view, job)
        worse = sum(1 for other in view if self.rho(view, other) > mine)
        return f"delayed {mine:.1f} times its fair time, {worse} jobs more than that: {needs(view, job)}"


class _Contention:
    """How many jobs there were, on average, during the life of each."""

    def __init__(self) -> None:
        self._job_s = 0.0
        self._seen_s = 0.0
        self._count = 0
        self._at_arrival: dict[str, float] = {}

    def observe(self, view: View) -> None:
        """Account for the time since the last look."""
        self._job_s += self._count * (view.now - self._seen_s)
        self._seen_s, self._count = view.now, len(view.jobs)
        for job in view.arrived:
            self._at_arrival[job.job] = self._job_s
        for job in view.ended:
            self._at_arrival.pop(job.job, None)

    def mean(self, now: float, job: Job) -> float:
        """The mean since it was submitted; those that are there now, if that is this instant."""
        lived_s = self._seen_s - job.spec.submitted_s
        if lived_s <= 0 or job.job not in self._at_arrival:
            return max(1.0, float(self._count))
        return max(1.0, (self._job_s - self._at_arrival[job.job]) / lived_s)


def _renew(shares: Shares, ordered: Sequence[Job]) -> None:
    """Who holds something goes on holding it."""
    for job in ordered:
        role = job.spec.roles[0]
        if job.gpus and role.gpus:
            shares.raise_to(job, job.gpus // role.gpus)


def _finish_s(view: View, job: Job, count: int) -> float:
    """Seconds from its submission to its end with so many replicas from now on."""
    speed = view.speed(job).speed(count * job.spec.roles[0].gpus)
    return view.now - job.spec.submitted_s + work_left(view, job) / speed


def _gain(view: View, job: Job, count: int) -> float:
    """By which factor the next replica lowers rho, as a logarithm."""
    if not count:
        return math.inf
    now_s, then_s = _finish_s(view, job, count), _finish_s(view, job, count + 1)
    return math.log(now_s / then_s) if then_s else 0.0
