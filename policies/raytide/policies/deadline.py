"""Deadlines: every admitted job gets what it needs to be done in time, and what is left makes jobs faster.

Source: Gu et al., *ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning*, ASPLOS 2023:
minimum satisfactory share, admission control, and the rest by marginal return.

Rule, at every event: plan ahead, by how many GPUs are free at every future instant. A job's plan is the sequence of
sizes (its least, doubled again and again) that meets its deadline with the least GPU time; every start and change of
size counts with what it costs. A job is admitted once a plan exists in which it and all admitted jobs are in time: the
plans of before with the newcomer in what they leave, or new ones, made by deadline or by slack. Until then it waits,
holding nothing, and it is refused when it could not be done in time any more even if it were alone; among those that
wait the one that needs least GPU time is tried first. GPUs that no plan needs now go to jobs that would wait, then
where the next size adds most speed per GPU, if that ends a job earlier and is in nobody's way. Jobs without a deadline,
and admitted ones that turned out late, run on the rest; nobody's admission depends on them.
Limits: needs declared work (or durations), without which a deadline counts for nothing, and speeds, which it takes to
be the same everywhere. Tenants' limits are not planned for: a job over one waits, and may be late. Sizes between the
doubles are not used. What is admitted early may crowd out more jobs that come later: the future is not known.
Starvation: possible. A job without a deadline waits while jobs with one need all GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from raytide.core import NOTHING, Decision, EventDriven, Job, Shape, View
from raytide.policies.allotment import MARGIN_S, Allotment, Size, Task, sizes
from raytide.policies.budget import needs
from raytide.policies.deadline_plan import Planner, by_deadline, by_gpu_time
from raytide.policies.free_time import FreeTime
from raytide.policies.progress import Progress

CHANGE_S = 30.0
_LEAST_STAY = 2.0
"""A job without a deadline starts where it can stay for so many times the cost of its start."""


class Deadline:
    """Minimum shares by deadline, with admission.

    Args:
        change_s: Seconds without progress that a start or a change of size costs.
    """

    name = "deadline"
    clock = EventDriven()

    def __init__(self, change_s: float = CHANGE_S) -> None:
        self._change_s = change_s
        self._progress = Progress(change_s)
        self._plan: dict[str, Allotment] = {}
        self._admitted: set[str] = set()

    def decide(self, view: View) -> Decision:
        """Plan, admit, hasten, and give the rest to those without a plan."""
        self._progress.look(view)
        self._admitted -= {job.job for job in view.ended}
        tasks = {job.job: self._task(view, job) for job in view}
        fixed = [task for task in tasks.values() if task.held and not task.job.spec.preemptible]
        planner = Planner(view.now, view.total_gpus, fixed)
        open_ = [task for task in tasks.values() if task not in fixed]
        refused, wake_s = self._admit(planner, [task for task in open_ if task.has_deadline])
        free = planner.free(self._plan)
        planner.hasten(tasks, self._plan, free)
        shapes = {name: _shape(allotment.at(view.now)) for name, allotment in self._plan.items()}
        rest = [task for task in open_ if not task.has_deadline or self._is_late(task)]
        shapes |= _shares(sorted(rest, key=by_deadline), free)
        changed = {name: shape for name, shape in shapes.items() if shape != tasks[name].job.shape}
        wake_s = min([wake_s, *(allotment.next_change_s(view.now) for allotment in self._plan.values())])
        return Decision(changed, refused=refused, wake_at_s=None if math.isinf(wake_s) else wake_s)

    def _task(self, view: View, job: Job) -> Task:
        speeds = view.speed(job)
        options = sizes(job, speeds)
        held = next((size for size in options if size.shape == job.shape), None)
        if held is None and job.gpus:
            held = Size(job.gpus, speeds.speed(job.gpus), job.shape)
        left, delay_s = self._progress.left(job, view.now), self._progress.delay_s(job, view.now)
        return Task(job, view.now, left, options, held, delay_s, self._change_s)

    def _is_late(self, task: Task) -> bool:
        return task.job.job in self._admitted and task.job.job not in self._plan

    def _admit(self, planner: Planner, tasks: Sequence[Task]) -> tuple[dict[str, str], float]:
        """Plan for those who were admitted, then for more; returns whom not, and when the next one has to go."""
        accepted = [task for task in tasks if task.job.job in self._admitted]
        waiting = [task for task in tasks if task.job.job not in self._admitted]
        plan = planner.best(accepted, self._plan)
        refused: dict[str, str] = {}
        wake_s = math.inf
        for task in sorted(waiting, key=by_gpu_time):
            spare_s = task.due_s - task.soonest_s
            if spare_s < 0:
                refused[task.job.job] = _too_late(task)
                continue
            trial = planner.best([*accepted, task], plan)
            if len(trial) > len(plan) and task.job.job in trial:
                accepted.append(task)
                self._admitted.add(task.job.job)
                plan = trial
            else:
                wake_s = min(wake_s, task.now + spare_s + MARGIN_S)
        self._plan = plan
        return refused, wake_s

    def why_waiting(self, view: View, job: Job) -> str:
        """Whether it is admitted, when it will start, and what is missing."""
        allotment = self._plan.get(job.job)
        if allotment is not None:
            start_s, end_s = allotment.holds[0].start_s, allotment.end_s
            return f"admitted: starts by {start_s:.0f} s, done by {end_s:.0f} s; {needs(view, job)}"
        if job.spec.deadline_s is None or job.job in self._admitted:
            return f"runs on what jobs with deadlines leave: {needs(view, job)}"
        return f"not admitted yet: no room before its deadline at {job.spec.deadline_s:.0f} s; {needs(view, job)}"


def _too_late(task: Task) -> str:
    most, deadline_s = task.sizes[-1].gpus, task.job.spec.deadline_s
    waited_s = task.now - task.job.spec.submitted_s
    reason = (
        f"cannot be done by its deadline at {deadline_s:.0f} s: with {most} GPUs from now on, by {task.soonest_s:.0f} s"
    )
    return f"{reason}; for {waited_s:.0f} s jobs that were admitted before left no room" if waited_s else reason


def _shape(size: Size | None) -> Shape:
    return NOTHING if size is None else size.shape


def _shares(tasks: Sequence[Task], free: FreeTime) -> dict[str, Shape]:
    """Shapes of jobs that nothing is promised to: what they hold or asked for in turn, then what is left in turn."""
    chosen: dict[str, Size | None] = {}
    for task in tasks:
        room = free.at(task.now)
        chosen[task.job.job] = size = task.held if task.held and task.held.gpus <= room else _start(task, free)
        if size is not None:
            free.take(task.now, math.inf, size.gpus)
    for task in tasks:
        size = chosen[task.job.job]
        if size is None or not task.job.spec.preemptible:
            continue
        free.take(task.now, math.inf, -size.gpus)
        chosen[task.job.job] = size = _grown(task, size, free)
        free.take(task.now, math.inf, size.gpus)
    return {name: _shape(size) for name, size in chosen.items()}


def _start(task: Task, free: FreeTime) -> Size | None:
    asked = [size for size in task.sizes if size.gpus <= max(task.job.requested_gpus, task.sizes[0].gpus)]
    return next((size for size in reversed(asked) if _can_stay(task, size, free)), None)


def _grown(task: Task, size: Size, free: FreeTime) -> Size:
    """The largest size that is worth its change."""
    for larger in reversed(task.sizes):
        saved_s = task.left * (1.0 / size.speed - 1.0 / larger.speed)
        if larger.gpus > size.gpus and saved_s > task.change_s and _can_stay(task, larger, free):
            return larger
    return size


def _can_stay(task: Task, size: Size, free: FreeTime) -> bool:
    """Whether there is room long enough: to the end, if the job cannot be preempted."""
    end_s = task.now + task.change_s + task.left / size.speed
    stay_s = end_s if not task.job.spec.preemptible else min(end_s, task.now + _LEAST_STAY * task.change_s)
    return free.at(task.now) >= size.gpus and free.until(task.now, size.gpus) >= stay_s
