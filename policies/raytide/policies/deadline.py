"""Deadlines: every admitted job gets what it needs to be done in time, and what is left makes jobs faster.

Source: Gu et al., *ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning*, ASPLOS 2023:
minimum satisfactory share, admission control, and the rest by marginal return.

Rule, at every event: plan ahead, by how many GPUs are free at every future instant. A job's plan is the sequence of
sizes (its least, doubled again and again) that meets its deadline with the least GPU time; every start and change of
size counts with what it costs. A job is admitted once a plan exists in which it and all admitted jobs are in time: new
ones, made by deadline or by slack, or those of before with the newcomer in what they leave. Until then it waits,
holding nothing, and it is refused when it could not be done in time any more even if it were alone; among those that
wait the one that needs least GPU time is tried first. GPUs that no plan needs now go to jobs that would wait, then
where the next size adds most speed per GPU, if that ends a job earlier and is in nobody's way. Jobs without a deadline,
and admitted ones that turned out late, run on the rest; nobody's admission depends on them.
Limits: needs declared work (or durations), without which a deadline counts for nothing, and speeds, which it takes to
be the same everywhere. Of tenants' limits it knows the sizes that they rule out: a job whose tenant is full gets less
or waits, and may be late. Sizes between the doubles are not used. Where far more is asked for than there is, large jobs
that are admitted early crowd out many small ones that come later: the future is not known, and promises are kept.
Starvation: possible. A job without a deadline waits while jobs with one need all GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from raytide.core import NOTHING, Decision, EventDriven, Job, Shape, View
from raytide.policies.allotment import MARGIN_S, Allotment, Size, Task, sizes
from raytide.policies.budget import Budget, needs
from raytide.policies.deadline_plan import Planner, by_deadline, by_gpu_time
from raytide.policies.leftover import share_rest
from raytide.policies.progress import Progress


class Deadline:
    """Minimum shares by deadline, with admission."""

    name = "deadline"
    clock = EventDriven()

    def __init__(self) -> None:
        self._progress = Progress()
        self._plan: dict[str, Allotment] = {}
        self._admitted: set[str] = set()

    def decide(self, view: View) -> Decision:
        """Plan, admit, hasten, and give the rest to those without a plan."""
        self._progress.look(view)
        self._admitted -= {job.job for job in view.ended}
        self._admitted |= {job.job for job in view.arrived if job.first_start_s is not None}  # it was, before it rested
        tasks = {job.job: self._task(view, job) for job in view}
        fixed = [task for task in tasks.values() if task.fixed]
        planner = Planner(view.now, view.total_gpus, fixed)
        open_ = [task for task in tasks.values() if not task.fixed]
        refused, wake_s = self._admit(planner, [task for task in open_ if task.has_deadline])
        free = planner.free(self._plan)
        planner.hasten(tasks, self._plan, free)
        chosen = {name: allotment.at(view.now) for name, allotment in self._plan.items()}
        rest = [task for task in open_ if not task.has_deadline or self._is_late(task)]
        chosen |= share_rest(sorted(rest, key=by_deadline), free)
        shapes = _allowed(view, tasks, fixed, chosen)
        wake_s = min([wake_s, *(allotment.next_change_s(view.now) for allotment in self._plan.values())])
        return Decision(shapes, refused=refused, wake_at_s=None if math.isinf(wake_s) else wake_s)

    def _task(self, view: View, job: Job) -> Task:
        speeds = view.speed(job)
        options = sizes(job, speeds, _limit(view, job))
        held = next((size for size in options if size.shape == job.shape), None)
        if held is None and job.gpus:
            held = Size(job.gpus, speeds.speed(job.gpus), job.shape)
        left, delay_s = self._progress.left(job, view.now), self._progress.delay_s(job, view.now)
        return Task(job, view.now, left, options, held, delay_s, view.costs.dearest_s)

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


def _limit(view: View, job: Job) -> float:
    """The most GPUs that a job's tenants may ever hold."""
    limits = [view.tenants[tenant].limit_gpus for tenant in view.tenants.path(job.spec.tenant)]
    return min((limit for limit in limits if limit is not None), default=math.inf)


def _allowed(
    view: View, tasks: Mapping[str, Task], fixed: Sequence[Task], chosen: Mapping[str, Size | None]
) -> dict[str, Shape]:
    """What changes; who would break a tenant's limit gets less, or waits."""
    budget = Budget(view, view.total_gpus, from_nothing=True)
    for task in fixed:
        budget.take(task.job, task.job.shape)
    shapes: dict[str, Shape] = {}
    for name, size in chosen.items():
        job = tasks[name].job
        smaller = [other for other in tasks[name].sizes if size and other.gpus < size.gpus]
        fitting = (other.shape for other in (size, *reversed(smaller)) if other and budget.take(job, other.shape))
        shape = next(fitting, NOTHING)
        if shape != job.shape:
            shapes[name] = shape
    return shapes
