"""What the search is given: jobs, nodes, and what every number of GPUs is worth to every job, as arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from raytide.core import Cluster, Job, JobState, View

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bounds = tuple[int, int, int]
"""Least and most GPUs of a job, and by how many it grows."""

FAIR_WORTH = 0.25
"""What a job counts that progresses as on its equal share."""

GROWTH = 2
"""A job is given at most this many times the GPUs it has ever been measured with."""

LEAST_COST_S = 1.0
"""A move is taken to cost at least this, so that nobody is moved for nothing."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One round; jobs by attained service, then submission.

    Attributes:
        jobs: Those whose slots can change now.
        nodes: Those that take jobs.
        capacity: Slots of each node that these jobs share; shape (nodes,).
        crowded: Nodes with a job that spans nodes and cannot move; shape (nodes,).
        base: Slots that jobs have; shape (jobs, nodes).
        least, most, step: Bounds of each job's GPUs, and by how many it grows; shape (jobs,).
        worth: Progress over that of an equal share, by whether a job spans nodes, and GPUs; 0 for sizes it cannot
            have; shape (jobs, 2, sizes).
        kept: What a job's worth is multiplied with if it moves; shape (jobs,).
        limits: Jobs of a tenant, shape (jobs,), with the GPUs they may have together.
    """

    jobs: Sequence[Job]
    nodes: Sequence[str]
    capacity: Ints
    crowded: Bools
    base: Ints
    least: Ints
    most: Ints
    step: Ints
    worth: Floats
    kept: Floats
    limits: Sequence[tuple[Bools, int]]

    def is_like(self, other: Problem) -> bool:
        """Whether nothing differs but the time that jobs have had."""
        return self._content() == other._content()

    def _content(self) -> tuple[object, ...]:
        """All but :attr:`kept`, with jobs in an order that does not depend on time."""
        names = [job.job for job in self.jobs]
        order = sorted(range(len(names)), key=names.__getitem__)
        arrays = (self.base[order], self.worth[order], self.capacity, self.crowded)
        limits = tuple((below[order].tobytes(), left) for below, left in self.limits)
        return (*sorted(names), *self.nodes, *(array.tobytes() for array in arrays), *limits)


def problem_of(view: View) -> Problem:
    """What can be decided at this instant."""
    jobs, nodes = _movable(view), _open_nodes(view.cluster)
    place = {name: number for number, name in enumerate(nodes)}
    base = np.zeros((len(jobs), len(nodes)), dtype=np.int64)
    for row, job in zip(base, jobs, strict=True):
        for node, count in view.cluster.placement(job.job).gpus:
            if node in place:
                row[place[node]] = count
    capacity = base.sum(axis=0) + np.array([view.cluster.free_on(name) for name in nodes], dtype=np.int64)
    bounds = [_bounds(job, int(capacity.sum())) for job in jobs]
    least, most, step = np.array(bounds, dtype=np.int64).reshape(-1, 3).T
    return Problem(
        jobs=jobs,
        nodes=nodes,
        capacity=capacity,
        crowded=_crowded(view, jobs, place),
        base=base,
        least=least,
        most=most,
        step=step,
        worth=_worths(view, jobs, bounds, int(capacity.max(initial=0))),
        kept=np.array([_kept(view, job) for job in jobs]),
        limits=_limits(view, jobs),
    )


def _open_nodes(cluster: Cluster) -> list[str]:
    """Nodes that take jobs, full ones too, in the order in which they joined."""
    counts = range(cluster.largest_node_gpus + 1)
    return [name for _, name in sorted(chain.from_iterable(cluster.nodes_with(free) for free in counts))]


def _movable(view: View) -> list[Job]:
    """Running jobs that may be moved, and as many waiting ones as there are GPUs at most."""
    running = [job for job in view.holding.values() if job.state is JobState.RUNNING and job.spec.preemptible]
    waiting = view.queue()[: view.total_gpus]
    return sorted([*running, *waiting], key=lambda job: (job.attained_gpu_s(view.now), job.seniority))


def _crowded(view: View, jobs: Sequence[Job], place: dict[str, int]) -> Bools:
    found = np.zeros(len(place), dtype=np.bool_)
    movable = {job.job for job in jobs}
    for name, placement in view.cluster.held.items():
        if name not in movable and len(placement.gpus) > 1:
            found[[place[node] for node in placement.nodes if node in place]] = True
    return found


def _bounds(job: Job, total: int) -> Bounds:
    """Where most is below least, the job cannot have anything now."""
    role = job.spec.roles[0]
    if not job.spec.is_elastic:
        return job.requested_gpus, min(job.requested_gpus, total), 1
    least, most, step = role.least * role.gpus, role.most * role.gpus, role.gpus
    if job.spec.batch is not None:
        most = min(most, max(GROWTH * job.training.most_gpus // step * step, least, job.gpus))
    return least, min(most, total // step * step), step


def _worths(view: View, jobs: Sequence[Job], bounds: Sequence[Bounds], node_gpus: int) -> Floats:
    sizes = max((most for _, most, _ in bounds), default=0) + 1
    fair = math.ceil(view.total_gpus / max(1, len(view.jobs)))
    found = np.zeros((len(jobs), 2, sizes))
    for worth, job, (least, most, step) in zip(found, jobs, bounds, strict=True):
        rate, role = _rate(view, job), job.spec.roles[0]
        scale = FAIR_WORTH / rate(max(least, min(fair, role.most * role.gpus)), 1)
        for gpus in range(least, most + 1, step):
            if gpus <= node_gpus:
                worth[0, gpus] = scale * rate(gpus, 1)
            if gpus > 1:
                worth[1, gpus] = scale * rate(gpus, 2)
    return found


def _rate(view: View, job: Job) -> Callable[[int, int], float]:
    """Progress per second by GPUs and nodes; in proportion to GPUs where nothing is known."""
    if job.spec.batch is not None and job.training.samples:
        return view.goodput(job).at
    if job.spec.batch is None and job.spec.is_elastic:
        return view.speed(job).speed
    return _linear


def _linear(gpus: int, _nodes: int) -> float:
    return float(gpus)


def _kept(view: View, job: Job) -> float:
    """The part of its life that a running job will not have lost to moves, one more included."""
    if not job.gpus:
        return 1.0
    cost_s = max(view.costs.resize_s, LEAST_COST_S)
    age_s = view.now - job.spec.submitted_s
    return max(age_s - cost_s * (job.resizes + job.suspensions), 0.0) / (age_s + cost_s)


def _limits(view: View, jobs: Sequence[Job]) -> list[tuple[Bools, int]]:
    """What jobs that cannot move hold is taken off."""
    found = []
    for tenant in view.tenants:
        if tenant.limit_gpus is not None:
            below = np.array([tenant.tenant in view.tenants.path(job.spec.tenant) for job in jobs], dtype=np.bool_)
            held = sum(job.gpus for job, inside in zip(jobs, below, strict=True) if inside)
            found.append((below, tenant.limit_gpus - view.usage.get(tenant.tenant, 0) + held))
    return found
