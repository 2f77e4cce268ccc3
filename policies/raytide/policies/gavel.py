"""Max-min fairness over GPU types: each job on the types that suit it, all at the same fraction of their fair speed.

Source: Narayanan et al., *Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads*, OSDI 2020,
sections 3 (round-based mechanism) and 4.1 (the policy).

Rule: a linear program finds the part ``X[job, type]`` of its time that each job should spend on each GPU type, so that
the smallest ``GPUs * speed(X) / speed(equal parts of all types)`` is as large as possible; of all such solutions one
with the largest sum. In rounds of six minutes jobs are taken by ``X`` over the part of its rounds that the job has had
on that type so far, then in the order of submission; what is left idle goes to whoever fits, on the fastest type left.
A whole gang runs on one type for the whole round, and stays where it is if it is on that type already.
Limits: rigid jobs (the size that was requested; the least where no type has so many GPUs). Jobs do not share GPUs and
weights of tenants do not count; their limits hold. What becomes free within a round stays idle until the next.
Starvation: possible. A job larger than every type waits, and so does one while new ones fill the cluster in every
round.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from raytide.core import EventDriven, Job, JobState, Shape, View
from raytide.core.policy import Decision
from raytide.policies.budget import Budget, needs
from raytide.policies.moves import Plan, carry_on
from raytide.policies.typed_nodes import TypedNodes

ROUND_S = 360.0
_SECOND_GOAL = 1e-3
"""Weight of the sum against the smallest: decides only between solutions that are equally fair."""


class Gavel:
    """Rounds on GPUs of several types.

    Args:
        round_s: Length of a round.
    """

    name = "gavel"
    clock = EventDriven()

    def __init__(self, round_s: float = ROUND_S) -> None:
        self._round_s = round_s
        self._ends_s = 0.0
        self._plan: Plan = {}
        self._rounds: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._solved: tuple[object, dict[tuple[str, str], float]] = (None, {})

    def decide(self, view: View) -> Decision:
        """A new plan when a round begins; up to then, what is missing of the last one."""
        if view.now >= self._ends_s:
            self._ends_s = (math.floor(view.now / self._round_s) + 1) * self._round_s
            for job in view.ended:
                self._rounds.pop(job.job, None)
            self._plan = self._next_plan(view)
        step = carry_on(view, self._plan)
        wake_s = (self._ends_s if view.jobs else None) if step.wake_at_s is None else step.wake_at_s
        return Decision(step.shapes, placements=step.placements, wake_at_s=wake_s)

    def _next_plan(self, view: View) -> Plan:
        nodes = TypedNodes(view)
        jobs = [job for job in sorted(view, key=lambda job: job.seniority) if job.state is not JobState.STOPPING]
        budget = Budget(view, view.total_gpus, from_nothing=True)
        chosen: dict[str, tuple[Job, Shape, str]] = {}
        for job in jobs:
            if job.gpus and not job.spec.preemptible:
                budget.take(job, job.shape)
                nodes.pin(job)
        shapes = {job.job: _shape(job, nodes) for job in jobs if not nodes.pinned(job)}
        for job, gpu_type in self._by_priority(view, [job for job in jobs if job.job in shapes], shapes, nodes):
            shape = shapes[job.job]
            if job.job in chosen or not nodes.has_room(job, shape, gpu_type) or not budget.take(job, shape):
                continue
            nodes.take(job, shape, gpu_type)
            chosen[job.job] = (job, shape, gpu_type)
            self._rounds[job.job][gpu_type] += 1
        return nodes.places(list(chosen.values()))

    def _by_priority(
        self, view: View, jobs: Sequence[Job], shapes: Mapping[str, Shape], nodes: TypedNodes
    ) -> list[tuple[Job, str]]:
        """Jobs and types, first those the solution wants, then what could fill gaps."""
        parts = self._parts(view, jobs, shapes, nodes)

        def rank(pair: tuple[Job, str]) -> tuple[float, tuple[float, int], float]:
            job, gpu_type = pair
            gpus = job.spec.gpus(shapes[job.job])
            had = self._rounds[job.job][gpu_type] if job.job in self._rounds else 0
            lived = 1 + (view.now - job.spec.submitted_s) / self._round_s
            part = parts.get((job.job, gpu_type), 0.0)
            urgency = (math.inf if part else 0.0) if not had else part * lived / had
            return (-urgency, job.seniority, -view.speed(job, gpu_type).speed(gpus, nodes.spread(gpus, gpu_type)))

        return sorted(((job, gpu_type) for job in jobs for gpu_type in nodes.gpus), key=rank)

    def _parts(
        self, view: View, jobs: Sequence[Job], shapes: Mapping[str, Shape], nodes: TypedNodes
    ) -> dict[tuple[str, str], float]:
        """The solution, by job and type; solved anew only if jobs or nodes changed."""
        speeds: dict[tuple[str, str], float] = {}
        gpus = {job.job: max(1, job.spec.gpus(shapes[job.job])) for job in jobs}
        for job in jobs:
            for gpu_type, most in nodes.gpus.items():
                if gpus[job.job] <= most:
                    spread = nodes.spread(gpus[job.job], gpu_type)
                    speeds[job.job, gpu_type] = view.speed(job, gpu_type).speed(gpus[job.job], spread)
        question = (speeds, dict(nodes.gpus))
        if self._solved[0] != question:
            self._solved = (question, fair_parts(speeds, gpus, nodes.gpus))
        return self._solved[1]

    def why_waiting(self, view: View, job: Job) -> str:
        """How much it has had, and what is missing."""
        had = sum(self._rounds[job.job].values()) if job.job in self._rounds else 0
        return f"had {had} rounds, the next begins at {self._ends_s:.0f} s: {needs(view, job)}"


def _shape(job: Job, nodes: TypedNodes) -> Shape:
    """What was requested, or the least if no type has so much."""
    return job.requested if job.requested_gpus <= max(nodes.gpus.values(), default=0) else job.spec.least_shape


def fair_parts(
    speeds: Mapping[tuple[str, str], float], gpus: Mapping[str, int], capacity: Mapping[str, int]
) -> dict[tuple[str, str], float]:
    """The part of its time that each job should spend on each type; parts that are 0 are left out.

    Args:
        speeds: By job and type, for the pairs that are possible.
        gpus: Size of each job.
        capacity: GPUs of each type.
    """
    import numpy as np  # noqa: PLC0415 - half a second of imports that other policies need not pay
    from scipy.optimize import linprog  # noqa: PLC0415 - as above

    pairs = list(speeds)
    if not pairs:
        return {}
    jobs = {job: row for row, job in enumerate(dict.fromkeys(job for job, _ in pairs))}
    types = {gpu_type: row for row, gpu_type in enumerate(capacity)}
    total = sum(capacity.values())
    equal: defaultdict[str, float] = defaultdict(float)
    for (job, gpu_type), speed in speeds.items():
        equal[job] += speed * capacity[gpu_type] / total
    fairness = np.zeros((len(jobs), len(pairs) + 1))
    time = np.zeros((len(jobs), len(pairs) + 1))
    room = np.zeros((len(types), len(pairs) + 1))
    for column, (job, gpu_type) in enumerate(pairs):
        fairness[jobs[job], column] = -gpus[job] * speeds[job, gpu_type] / equal[job]
        time[jobs[job], column] = 1.0
        room[types[gpu_type], column] = gpus[job]
    goal = fairness.sum(axis=0) * _SECOND_GOAL / len(jobs)
    goal[-1] = -1.0
    fairness[:, -1] = 1.0  # the smallest, which is below all of them
    limits = np.concatenate([np.zeros(len(jobs)), np.ones(len(jobs)), [capacity[gpu_type] for gpu_type in types]])
    found = linprog(goal, A_ub=np.vstack([fairness, time, room]), b_ub=limits, method="highs")
    assert found.success, found.message
    return {pair: float(part) for pair, part in zip(pairs, found.x, strict=False) if part > 1e-9}
