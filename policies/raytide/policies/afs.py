"""Apathetic future share: GPUs one at a time, weighing short jobs against those that use GPUs well.

Source: Hwang et al., *Elastic Resource Sharing for Distributed Deep Learning*, NSDI 2021, section 4 (AFS-L).

Rule, at every event: starting from nothing, the next GPU goes to the winner of a knock-out over all jobs in the order
of submission. Of two jobs let *a* be the one that would be done first with what it has, and *p* the speed without and
*p'* with the next GPU. The longer one, *b*, wins if ``(p'b - pb) / p'b > (p'a - pa) / pa``, else *a* does: both count
on their shares of today only, as nobody knows those of tomorrow. Of two jobs without a GPU the shorter wins.
A job that needs several GPUs to begin gets them in one step, whose gain is counted per GPU. Steps that make a job
slower are not taken.
Limits: without declared work or duration, a job counts as having left what it has had; the paper's variant for unknown
lengths (AFS-P) differs in detail. No cost of resizes is weighed, so jobs are resized at almost every event.
Starvation: possible. The longest jobs wait where GPUs are short, with perfect speed-ups even if there is one for each,
while shorter ones keep coming; so does a gang whose turn comes when too little is left for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

from raytide.core import Decision, EventDriven, Job, View
from raytide.policies.budget import needs
from raytide.policies.lengths import work_left
from raytide.policies.shares import Shares


class Afs:
    """The pairwise rule."""

    name = "afs"
    clock = EventDriven()

    def decide(self, view: View) -> Decision:
        """One winner after another, until nobody can use or take what is left."""
        ordered = sorted(view, key=lambda job: job.seniority)
        shares = Shares(view, ordered)
        left = {job.job: work_left(view, job) for job in ordered}
        bids = {job.job: _bid(view, job, shares.count[job.job], left[job.job]) for job in ordered}
        while wanted := [bid for bid in bids.values() if bid is not None]:
            job, step = (winner := reduce(_winner, wanted)).job, winner.step
            given = shares.give(job, step)
            bids[job.job] = _bid(view, job, shares.count[job.job], left[job.job]) if given else None
        return Decision(shares.shapes())

    def why_waiting(self, view: View, job: Job) -> str:
        """How many are shorter, and what is missing."""
        mine = work_left(view, job)
        shorter = sum(1 for other in view if work_left(view, other) < mine)
        return f"{shorter} jobs have less left to do: {needs(view, job)}"


@dataclass(frozen=True, slots=True)
class _Bid:
    """What the next step would do for a job.

    Attributes:
        job: Who.
        count: Replicas it has.
        step: Replicas of the next step.
        left_s: Time to its end with what it has.
        alone_s: The same with its least.
        if_shorter: Its gain in relation to the speed before the step, per GPU.
        if_longer: Its gain in relation to the speed after it, per GPU.
    """

    job: Job
    count: int
    step: int
    left_s: float
    alone_s: float
    if_shorter: float
    if_longer: float


def _bid(view: View, job: Job, count: int, left: float) -> _Bid | None:
    """The next step of a job that has ``count`` replicas; None if there is none, or it would not be faster."""
    role, speed = job.spec.roles[0], view.speed(job).speed
    step = 1 if count else role.least
    if count + step > role.most:
        return None
    before, after = speed(count * role.gpus), speed((count + step) * role.gpus)
    if after <= before:
        return None
    gain = (after - before) / step / max(1, role.gpus)
    return _Bid(
        job,
        count,
        step,
        left_s=left / before if count else math.inf,
        alone_s=left / speed(role.least * role.gpus),
        if_shorter=gain / before if count else math.inf,
        if_longer=gain / after,
    )


def _winner(first: _Bid, second: _Bid) -> _Bid:
    """Whose step is the next one, of two; ``first`` was submitted first."""
    if not first.count and not second.count:
        return second if second.alone_s < first.alone_s else first
    shorter, longer = (first, second) if first.left_s <= second.left_s else (second, first)
    return longer if longer.if_longer > shorter.if_shorter else shorter
