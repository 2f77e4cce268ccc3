"""A plan for all jobs with deadlines: who holds what until when, so that all of them are done in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from raytide.policies.allotment import Allotment, Task
from raytide.policies.free_time import FreeTime

Order: TypeAlias = Callable[[Task], tuple[float, tuple[float, int]]]
Plan: TypeAlias = dict[str, Allotment]
"""What jobs hold that will be done in time; the others are not in it."""


def by_deadline(task: Task) -> tuple[float, tuple[float, int]]:
    """Earliest deadline first."""
    return (task.due_s, task.job.seniority)


def by_slack(task: Task) -> tuple[float, tuple[float, int]]:
    """Those first that can wait the least."""
    return (task.due_s - task.soonest_s, task.job.seniority)


def by_gpu_time(task: Task) -> tuple[float, tuple[float, int]]:
    """Those first that need least GPU time."""
    return (task.left * task.sizes[0].gpus / task.sizes[0].speed, task.job.seniority)


class Planner:
    """Makes plans at one instant.

    Args:
        now: The instant.
        gpus: What there is to give.
        fixed: Jobs that keep what they have, whatever comes.
    """

    def __init__(self, now: float, gpus: int, fixed: Iterable[Task] = ()) -> None:
        self._now = now
        self._fixed = FreeTime(now, gpus)
        for task in fixed:
            task.keep().take(self._fixed)

    def free(self, plan: Plan) -> FreeTime:
        """What a plan leaves."""
        free = self._fixed.copy()
        for allotment in plan.values():
            allotment.take(free)
        return free

    def best(self, tasks: Sequence[Task], before: Mapping[str, Allotment]) -> Plan:
        """The plan that serves most: made anew by deadline, the one of before, or made anew by slack.

        The one of before breaks no promise where the others fail.
        """
        plan = self.lean(tasks, by_deadline)
        if len(plan) < len(tasks):
            plan = max(plan, self.follow(tasks, before), key=len)
        if len(plan) < len(tasks):
            plan = max(plan, self.lean(tasks, by_slack), key=len)
        return plan

    def follow(self, tasks: Sequence[Task], before: Mapping[str, Allotment]) -> Plan:
        """Everybody keeps to the plan of before; newcomers get what is left. Empty if it holds no more."""
        plan: Plan = {}
        free = self._fixed.copy()
        for task in tasks:
            allotment = before.get(task.job.job)
            kept = None if allotment is None else task.within(allotment.room(self._now), task.sizes[-1])
            if kept is not None:
                plan[task.job.job] = kept
                kept.take(free)
        if free.least < 0:
            return {}
        self._add((task for task in tasks if task.job.job not in plan), free, plan)
        return plan

    def lean(self, tasks: Sequence[Task], order: Order) -> Plan:
        """Each in turn gets as little GPU time as meets its deadline."""
        plan: Plan = {}
        self._add(sorted(tasks, key=order), self._fixed.copy(), plan)
        return plan

    def _add(self, tasks: Iterable[Task], free: FreeTime, plan: Plan) -> None:
        for task in tasks:
            allotment = task.cheapest(free)
            if allotment is not None:
                plan[task.job.job] = allotment
                allotment.take(free)

    def hasten(self, tasks: Mapping[str, Task], plan: Plan, free: FreeTime) -> None:
        """Spend what is free now on being done earlier: on jobs that would wait, then where speed gains most."""
        open_ = set(plan)
        while free.at(self._now) and open_:
            gains = {name: _gain(tasks[name], plan[name], free.at(self._now)) for name in open_}
            name = max(gains, key=lambda name: (gains[name], [-n for n in tasks[name].job.seniority]))
            if gains[name] <= 0 or not self._hasten(tasks[name], plan, free):
                open_.discard(name)

    def _hasten(self, task: Task, plan: Plan, free: FreeTime) -> bool:
        """Give a job its next size now, if it is done earlier so and nobody else's plan is in the way."""
        old = plan[task.job.job]
        size = old.at(self._now)
        held = size.gpus if size else 0
        old.give_back(free)
        larger = next(other for other in task.sizes if other.gpus > held)
        new = task.within(free, larger)
        first = new.at(self._now) if new else None
        better = new is not None and first is not None and first.gpus > held and new.end_s < old.end_s
        chosen = new if better and new else old
        chosen.take(free)
        plan[task.job.job] = chosen
        return better


def _gain(task: Task, allotment: Allotment, free: int) -> float:
    """What the next size adds to a job's speed, relative to what it has; infinite for one that waits."""
    size = allotment.at(task.now)
    held = size.gpus if size else 0
    larger = next((other for other in task.sizes if other.gpus > held), None)
    if larger is None or larger.gpus - held > free or not task.job.spec.preemptible:
        return 0.0
    if size is None:
        return float("inf")
    return (larger.speed / size.speed - 1.0) * held / (larger.gpus - held)
