"""Tide: raytide's default. GPUs flow to where they shorten waiting most, and flow back as jobs come and go.

Sources: the order of worth follows Berg et al., *heSRPT: Parallel Scheduling to Minimize Mean Slowdown*, Performance
Evaluation 144, 2020, which is optimal for jobs that all speed up as the same power of their GPUs; the speeds are
goodput (Qiao et al., *Pollux*, OSDI 2021); attained service stands in for what nobody declared (Gu et al.,
*Tiresias*, NSDI 2019).

Rule: a review ranks all jobs by the time that what is left of them takes on an equal share of the cluster. A job's
progress counts the more, the shorter that time is in the ranking; GPUs go, step by step of growth, where they bring
most of it. A change of size counts for less than staying: by the time it costs over the time it will last, and by the
part of its life that the job has lost to changes so far. What is left of a job follows from declared work, epochs or
duration; without them, it is taken to run as long again as it has run. Tenants' guarantees are filled before anything
else is shared out, limits hold, and weights multiply what jobs count. Between reviews, which are the rarer the more
jobs there are, whoever fits starts at once: those that have waited for too long, then the shortest.
Limits: a job with several roles keeps the shape it asked for. Speeds across nodes assume that jobs sit on as few nodes
as they can.
Starvation: none. A job that has waited six hours, and four times as long as it has run, is served before all others
but those that may not be preempted, the oldest first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from raytide.core import NOTHING, NOWHERE, Decision, EventDriven, Job, JobState, Placement, Shape, View, replicas
from raytide.policies.budget import Budget, needs, position
from raytide.policies.placement import Consolidated
from raytide.policies.tide.curves import Curves
from raytide.policies.tide.queue import Queue
from raytide.policies.tide.steps import Steps, by_worth, share_out
from raytide.policies.tide.worth import Worth, Worths

REVIEW_S = 60.0
"""A review follows at the latest after this time, as long as a job can change its size ..."""

REVIEW_S_PER_JOB = 0.25
"""... and never sooner than this after the last one, times the number of jobs ..."""

REVIEW_S_PER_RIGID_JOB = 1.0
"""... or this, where no job can change its size: a review can then only suspend some for others."""

TRIAL_S = 60.0
"""For this long an elastic job keeps the least it needs: others shrink so that it starts and can be measured."""

PATIENCE_S = 6 * 3600.0
PATIENCE_RUNS = 4.0
"""A job that has waited for longer than this, and longer than so many times what it has run, is served first."""


class Tide:
    """raytide's default policy.

    Args:
        patience_s: A job that waits for longer is served first; see :data:`PATIENCE_S`.
    """

    name = "tide"
    clock = EventDriven()

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._worths = Worths(Curves())
        self._queue = Queue()
        self._elastic: set[str] = set()
        self._reviewed_s = -math.inf

    def decide(self, view: View) -> Decision:
        """Review everything if that is due; else start whoever fits."""
        self._follow(view)
        if not self._elastic and not view.waiting:
            return Decision()
        due_s = self._reviewed_s + self._gap_s(view)
        if view.now >= due_s:
            return self._review(view)
        shapes = self._queue.start(view, self._overdue(view))
        idle = not self._elastic and len(shapes) == len(view.waiting)
        return Decision(shapes, wake_at_s=None if idle else due_s)

    def _overdue(self, view: View) -> Iterator[Job]:
        """Jobs that have waited for too long, the oldest first."""
        for job in view.queue():
            if view.now - job.spec.submitted_s <= self._patience_s:
                return  # nor has any that came later
            if _is_overdue(job, view.now, self._patience_s):
                yield job

    def _gap_s(self, view: View) -> float:
        return (REVIEW_S_PER_JOB if self._elastic else REVIEW_S_PER_RIGID_JOB) * len(view.jobs)

    def _follow(self, view: View) -> None:
        self._worths.follow(view)
        for job in view.ended:
            self._elastic.discard(job.job)
        for job in view.arrived:
            if not job.ended:
                self._queue.add(job)
                if job.spec.is_elastic:
                    self._elastic.add(job.job)

    def why_waiting(self, view: View, job: Job) -> str:
        """Where it is, and what is missing."""
        return f"{position(view, job)}: {needs(view, job)}; others shorten the waiting of all more"

    # --- reviews -----------------------------------------------------------------------------

    def _review(self, view: View) -> Decision:
        self._reviewed_s = view.now
        jobs = list(view.jobs.values())
        worth = self._worths.of(view, jobs, max(1, view.cluster.largest_node_gpus))
        counts = _share_out(view, jobs, worth, self._patience_s)
        moves = [(job, gpus) for job, gpus in zip(jobs, counts, strict=True) if gpus != job.gpus and _is_free(job)]
        moves.sort(key=lambda move: (move[1] > move[0].gpus, -move[1]))
        shapes, placements = _place(view, moves)
        self._queue.fill(job for job in view.waiting.values() if job.job not in shapes)
        wait_s = max(REVIEW_S if self._elastic else 0.0, self._gap_s(view))
        return Decision(shapes, placements=placements, wake_at_s=view.now + wait_s)


def _is_free(job: Job) -> bool:
    """Nothing is going on with it."""
    return job.waiting or job.state is JobState.RUNNING


def _share_out(view: View, jobs: Sequence[Job], worth: Worth, patience_s: float) -> list[int]:
    """GPUs of each job: first what must be, then what is guaranteed, then where they are worth most."""
    usable = view.free_gpus + sum(job.gpus for job in view.holding.values())
    budget = Budget(view, usable, from_nothing=True)
    counts = [_must_have(job, budget) for job in jobs]
    first = sorted(
        (i for i, job in enumerate(jobs) if _is_first(job, view.now, patience_s)), key=lambda i: jobs[i].seniority
    )
    for place in first:
        least = _least(jobs[place])
        if counts[place] < least and budget.take_gpus(jobs[place], least - counts[place]):
            counts[place] = least
    order = by_worth(worth.steps, worth.weights)
    counts = _share_out_guarantees(view, jobs, worth.steps, order, counts, budget)
    return share_out(worth.steps, order, counts, lambda place, gpus: budget.take_gpus(jobs[place], gpus))


def _share_out_guarantees(
    view: View,
    jobs: Sequence[Job],
    steps: Sequence[Steps],
    order: Sequence[tuple[int, int]],
    counts: list[int],
    budget: Budget,
) -> list[int]:
    """The same inside what tenants are guaranteed."""
    left = {tenant.tenant: tenant.guaranteed_gpus for tenant in view.tenants if tenant.guaranteed_gpus}
    if not left:
        return counts
    inside = [job.spec.tenant in left for job in jobs]
    for job, is_inside, count in zip(jobs, inside, counts, strict=True):
        if is_inside:
            left[job.spec.tenant] -= count

    def take(place: int, gpus: int) -> bool:
        job = jobs[place]
        if gpus > left[job.spec.tenant] or not budget.take_gpus(job, gpus):
            return False
        left[job.spec.tenant] -= gpus
        return True

    return share_out(steps, (step for step in order if inside[step[0]]), counts, take)


def _must_have(job: Job, budget: Budget) -> int:
    """What cannot be taken from a job; it is taken from the budget."""
    if not job.gpus or job.spec.preemptible:
        return 0
    gpus = min(job.gpus, _least(job))
    return gpus if budget.take_gpus(job, gpus) else 0


def _least(job: Job) -> int:
    return job.spec.gpus(job.spec.least_shape) if job.spec.is_elastic else job.requested_gpus


def _is_first(job: Job, now: float, patience_s: float) -> bool:
    """It has waited for too long, or is new and others can shrink for it."""
    return (job.spec.is_elastic and job.run_s(now) < TRIAL_S) or _is_overdue(job, now, patience_s)


def _is_overdue(job: Job, now: float, patience_s: float) -> bool:
    """It has waited for too long."""
    run_s = job.run_s(now)
    waited_s = now - job.spec.submitted_s - run_s
    return waited_s > patience_s and waited_s > PATIENCE_RUNS * run_s


def _place(view: View, moves: Sequence[tuple[Job, int]]) -> tuple[dict[str, Shape], dict[str, Placement]]:
    """Shapes and places of moves, each possible once those before it are done; those without room are left out."""
    cluster, placer = view.cluster, Consolidated()
    shapes: dict[str, Shape] = {}
    placements: dict[str, Placement] = {}
    cluster.checkpoint()
    for job, gpus in moves:
        cluster.checkpoint()
        cluster.assign(job.job, NOWHERE)
        shape = _shape(job, gpus)
        placement = placer.place(cluster, job, shape) if gpus else NOWHERE
        if placement is None:
            cluster.rollback()
            continue
        cluster.assign(job.job, placement)
        cluster.commit()
        shapes[job.job] = shape
        if gpus:
            placements[job.job] = placement
    cluster.rollback()
    return shapes, placements


def _shape(job: Job, gpus: int) -> Shape:
    if not gpus:
        return NOTHING
    return replicas(gpus // job.spec.roles[0].gpus) if job.spec.is_elastic else job.requested
