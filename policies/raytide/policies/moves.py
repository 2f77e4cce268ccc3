"""From where jobs are to where they shall be: in which order, and who has to step aside for a moment."""

from __future__ import annotations

from collections.abc import Mapping

from raytide.core import NOTHING, NOWHERE, Decision, Job, JobState, Placement, Shape, View

Plan = Mapping[str, tuple[Shape, Placement]]
"""Shape and exact slots of every job that shall run; who comes first moves first."""


def carry_on(view: View, plan: Plan) -> Decision:
    """What is next on the way to a plan; to be asked again after every event until nothing is left to do.

    Jobs that hold slots and are not in the plan are suspended. Where jobs wait for each other's slots in a circle, one
    of them is suspended and starts again as soon as the others have moved.

    Args:
        view: The instant.
        plan: Where everybody shall be.
    """
    free = {node.node: view.cluster.free_on(node.node) for node in view.cluster.nodes}
    shapes: dict[str, Shape] = {}
    for job in view.holding.values():
        if job.job not in plan and job.spec.preemptible:
            _leave(view, job, free, shapes)
    there = [view.jobs[name] for name in plan if name in view.jobs and view.jobs[name].spec.admits(plan[name][0])]
    todo = [job for job in there if view.cluster.placement(job.job) != plan[job.job][1]]
    stepped_aside = False
    while todo:
        able = next((job for job in todo if _fits(view, job, plan[job.job][1], free)), None)
        if able is not None:
            _move(view, able, plan[able.job][1], free)
            shapes[able.job] = plan[able.job][0]
        else:
            able = next((job for job in reversed(todo) if job.gpus and job.spec.preemptible), None)
            if able is None:
                break  # they wait for slots that are not there yet
            _leave(view, able, free, shapes)
            stepped_aside |= able.state is JobState.RUNNING
        todo.remove(able)
    placements = {name: plan[name][1] for name, shape in shapes.items() if shape}
    return Decision(shapes, placements=placements, wake_at_s=view.now if stepped_aside else None)


def _leave(view: View, job: Job, free: dict[str, int], shapes: dict[str, Shape]) -> None:
    _move(view, job, NOWHERE, free)
    shapes[job.job] = NOTHING


def _fits(view: View, job: Job, target: Placement, free: Mapping[str, int]) -> bool:
    mine = dict(view.cluster.placement(job.job).gpus)
    return all(count - mine.get(node, 0) <= free.get(node, 0) for node, count in target.gpus)


def _move(view: View, job: Job, target: Placement, free: dict[str, int]) -> None:
    for node, count in view.cluster.placement(job.job).gpus:
        free[node] += count
    for node, count in target.gpus:
        free[node] -= count
