"""Finish-time fairness: how much later a job ends than if it had always had its share of the cluster.

``rho = JCT / (start cost + fair JCT)``. The fair JCT is the time the job needs if, at every instant, each of the N
active jobs of this simulation (submitted and not over; the job itself counts until it is done here too) owns G/N of
the G GPUs, and resizes cost nothing. A job of g GPUs runs at full speed with g of them and never faster; with fewer it
has the gang for that share of the time. 1 is exactly fair, more is worse. (Themis, NSDI 2020, has the measure; here N
changes with time.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raytide.core import Job
from raytide.sim.series import Floats, Steps
from raytide.sim.simulation import SimResult


def fair_ends_s(result: SimResult, jobs: Sequence[Job]) -> Floats:
    """When each of ``jobs`` would end with its fair share, without any cost.

    Args:
        result: The simulation that they are of.
        jobs: Jobs that are over and have declared how long they run.
    """
    load = _Load(result)
    ends_s = np.empty(len(jobs))
    sizes = np.array([job.requested_gpus for job in jobs])
    for gpus in np.unique(sizes):
        chosen = np.flatnonzero(sizes == gpus)
        ends_s[chosen] = load.fair_ends_s(int(gpus), [jobs[i] for i in chosen.tolist()])
    return ends_s


class _Load:
    """How many share how many GPUs, over time."""

    def __init__(self, result: SimResult) -> None:
        times_s = np.asarray(result.timeline.time_s)
        real = [job for job in result.jobs if job.ended_s is None or job.ended_s > job.spec.submitted_s]
        submits_s = np.sort([job.spec.submitted_s for job in real])
        ends_s = np.sort([job.ended_s for job in real if job.ended_s is not None])
        self._times_s = times_s
        self._gpus = np.asarray(result.timeline.total_gpus, dtype=np.float64)
        arrived, over = (np.searchsorted(instants, times_s, "right") for instants in (submits_s, ends_s))
        self._active = (arrived - over).astype(np.float64)

    def fair_ends_s(self, gpus: int, jobs: Sequence[Job]) -> Floats:
        """Fair ends of jobs that want the same number of GPUs."""
        among = self._speed(gpus, np.maximum(self._active, 1.0))
        with_one_more = self._speed(gpus, self._active + 1.0)  # a job that is over in truth, but not in fairness
        submit_s = np.array([job.spec.submitted_s for job in jobs])
        end_s = np.array([job.ended_s for job in jobs], dtype=np.float64)
        work_s = np.array([job.spec.duration_s for job in jobs], dtype=np.float64)
        start = among.integral(submit_s)
        left_s = work_s - (among.integral(end_s) - start)
        return np.where(
            left_s <= 0,
            among.reached_s(start + work_s),
            with_one_more.reached_s(with_one_more.integral(end_s) + left_s),
        )

    def _speed(self, gpus: int, sharing: Floats) -> Steps:
        return Steps(self._times_s, np.minimum(1.0, self._gpus / (gpus * sharing)))
