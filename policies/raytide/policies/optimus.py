"""Optimus: GPUs go where they shorten the remaining time most.

Source: Peng et al., *Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters*, EuroSys 2018,
section 4; by the rule that Pollux's simulator replays it with (Qiao et al., OSDI 2021): no look-ahead.

Rule, at every event: each job gets its least number of replicas in the order of submission, as long as there is room;
then, one at a time, the job whose remaining time one more replica shortens most, ties by submission, until none gains.
A job that runs and may not be preempted has its least before all others.
Limits: needs declared work; a job without it keeps its least. No cost of resizes is weighed. Where a curve has a hump
ahead (two more would help, one more does not), it does not look beyond.
Given a placer, it places all jobs whose size changes anew, the smallest first, after all of them have left their slots,
as that simulator does.
Starvation: none among jobs that may be preempted; each waits only while earlier ones hold their least, and those that
may not be preempted hold theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from raytide.core import NOWHERE, Decision, EventDriven, Job, Placement, Placer, Shape, View
from raytide.core.policy import Clock
from raytide.policies.budget import needs, position
from raytide.policies.shares import Shares

ALWAYS = EventDriven()


class Optimus:
    """Marginal gain in remaining time.

    Args:
        clock: When it decides.
        placer: Places what changes; None leaves that to the controller.
    """

    name = "optimus"

    def __init__(self, clock: Clock = ALWAYS, placer: Placer | None = None) -> None:
        self.clock = clock
        self._placer = placer

    def decide(self, view: View) -> Decision:
        """The least for everybody, then the rest by gain."""
        ordered = sorted(view, key=lambda job: job.seniority)
        shares = Shares(view, ordered)
        for job in ordered:
            shares.raise_to(job, job.spec.roles[0].least)

        left = {job.job: job.work_left(view.now) for job in ordered}

        def gain(job: Job, count: int) -> float:
            inside = 0 < count < job.spec.roles[0].most
            return time_saved_s(view, job, count, left[job.job]) if inside else 0.0

        shares.expand(gain)
        shapes = dict(sorted(shares.shapes().items(), key=lambda change: change[1]["replica"]))
        placements = {} if self._placer is None else place_anew(view, shapes, self._placer)
        return Decision(shapes, placements=placements)

    def why_waiting(self, view: View, job: Job) -> str:
        """Where it is, and what is missing."""
        return f"{position(view, job)}: {needs(view, job)}; earlier jobs hold their least"


def place_anew(view: View, shapes: Mapping[str, Shape], placer: Placer) -> dict[str, Placement]:
    """Places of all jobs that change, in this order, after all of them have left; those without room are left out."""
    cluster = view.cluster
    placements: dict[str, Placement] = {}
    cluster.checkpoint()
    for name in shapes:
        cluster.assign(name, NOWHERE)
    for name, shape in shapes.items():
        placement = placer.place(cluster, view.jobs[name], shape) if shape else None
        if placement is not None:
            cluster.assign(name, placement)
            placements[name] = placement
    cluster.rollback()
    return placements


def time_saved_s(view: View, job: Job, count: int, left: float) -> float:
    """By how much one more than ``count`` replicas shortens what is left of a job; 0 if nobody declared its work."""
    if math.isinf(left):
        return 0.0
    speed, gpus = view.speed(job).speed, job.spec.roles[0].gpus
    return left / speed(count * gpus) - left / speed((count + 1) * gpus)
