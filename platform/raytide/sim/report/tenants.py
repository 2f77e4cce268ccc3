"""One row per tenant: what it got against what it was entitled to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from raytide.core import Job, TenantTree
from raytide.core.tenants import ROOT
from raytide.sim.report.window import Window
from raytide.sim.series import Floats, Steps
from raytide.sim.simulation import SimResult


def tenant_table(result: SimResult, jobs: pd.DataFrame) -> pd.DataFrame:
    """Tenants with jobs that could run, by name.

    Columns: ``tenant``, ``jobs``, ``gpu_hours`` (held), ``share`` (of all GPU hours held), ``entitled_gpu_hours``,
    ``received`` (GPU hours held over those entitled to: below 1 it got less than its due, above 1 it borrowed),
    ``mean_jct_s``, ``mean_queueing_s``.

    A tenant is entitled, at every instant at which it has jobs that are not over, to its guaranteed GPUs and to its
    share by weight of the GPUs that no tenant with such jobs is guaranteed; never to more than its jobs request.

    Args:
        result: The simulation.
        jobs: Its :func:`~raytide.sim.report.jobs.job_table`.
    """
    able = jobs[jobs["state"] != "refused"]
    by_tenant = able.groupby("tenant", sort=True)
    gpu_hours = by_tenant["gpu_s"].sum() / 3600
    entitled = entitled_gpu_s(result)
    table = pd.DataFrame({"jobs": by_tenant.size(), "gpu_hours": gpu_hours, "share": gpu_hours / gpu_hours.sum()})
    table["entitled_gpu_hours"] = [entitled[str(name)] / 3600 for name in table.index]
    table["received"] = table["gpu_hours"] / table["entitled_gpu_hours"]
    table["mean_jct_s"] = by_tenant["jct_s"].mean()
    table["mean_queueing_s"] = by_tenant["queue_s"].mean()
    return table.reset_index()


def entitled_gpu_s(result: SimResult) -> dict[str, float]:
    """GPU seconds each tenant was entitled to between the first submission and the last end."""
    times_s = np.unique(np.asarray(result.timeline.time_s))
    window = Window.of(result)
    demand = {name: Steps.of_changes(*_demand(jobs)).at(times_s) for name, jobs in _by_tenant(result.jobs).items()}
    gpus = window.gpus.at(times_s)
    guaranteed = {name: result.tenants[name].guaranteed_gpus * (wanted > 0) for name, wanted in demand.items()}
    left = np.maximum(gpus - sum(guaranteed.values()), 0.0)
    shares = _shares(result.tenants, demand)
    due = {name: np.minimum(wanted, guaranteed[name] + left * shares[name]) for name, wanted in demand.items()}
    return {name: window.area(Steps(times_s, value)) for name, value in due.items()}


def _by_tenant(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        if str(job.state) != "refused":
            found.setdefault(job.spec.tenant, []).append(job)
    return found


def _demand(jobs: Sequence[Job]) -> tuple[list[float], list[int]]:
    """Changes of what a tenant's jobs request, by time."""
    changes = [(job.spec.submitted_s, job.requested_gpus) for job in jobs]
    changes += [(job.ended_s, -job.requested_gpus) for job in jobs if job.ended_s is not None]
    changes.sort()
    return [at_s for at_s, _ in changes], [gpus for _, gpus in changes]


def _shares(tree: TenantTree, demand: Mapping[str, Floats]) -> dict[str, Floats]:
    """Each tenant's part of the cluster by weight, among those that have jobs at the time, down the tree."""
    active: dict[str, Floats] = {}
    for name, wanted in demand.items():
        for above in tree.path(name):
            active[above] = np.maximum(active.get(above, 0.0), wanted > 0)
    weights: dict[str, Floats] = {}
    for name, is_active in active.items():
        parent = tree[name].parent
        weights[parent] = weights.get(parent, 0.0) + tree[name].weight * is_active

    def share(name: str) -> Floats:
        parent = tree[name].parent
        above = np.ones(1) if parent == ROOT else share(parent)
        return above * tree[name].weight * active[name] / np.maximum(weights[parent], 1e-12)

    return {name: share(name) for name in demand}
