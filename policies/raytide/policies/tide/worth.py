"""What GPUs are worth to each job, at one instant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from raytide.core import Job, View
from raytide.policies.tide.curves import Curve, Curves, Floats, work_left
from raytide.policies.tide.steps import Steps, concave_steps

SPEEDUP_EXPONENT = 0.75
"""How jobs are taken to speed up on the whole, where they are ranked: as this power of their GPUs."""

HORIZON_GAPS, LEAST_HORIZON_S = 1.5, 140.0
"""A change is taken to last for so many gaps between jobs that come and go, or as long as the job, if that is less."""

GAP_MEMORY = 0.1
"""What the latest gap counts in their mean."""

GRACE_S = 600.0
"""Added to the time that a job has run, when it is asked how much of it went into changes."""

UNKNOWN_S = 600.0
"""What is left of a job when nothing at all is known, of it or of any other."""

_LEVELS = 32
"""Penalties are rounded to so many levels, so that steps can be kept from one review to the next."""


@dataclass(frozen=True, eq=False)
class Worth:
    """Jobs at one instant, in the order they were given.

    Attributes:
        steps: Of each job.
        weights: What a unit of its value counts; shape (jobs,).
    """

    steps: Sequence[Steps]
    weights: Floats


class _Standing(NamedTuple):
    """One job: its curve, its equal share, its rate there, and how long it takes."""

    job: Job
    curve: Curve
    share: int
    rate: float
    left_s: float


class Worths:
    """Keeps what need not be computed at every review.

    Args:
        curves: Of all jobs.
    """

    def __init__(self, curves: Curves) -> None:
        self._curves = curves
        self._plain: dict[str, tuple[Curve, Steps]] = {}
        self._running: dict[str, tuple[Curve, int, int, Steps]] = {}
        self._gap_s = 0.0
        self._moved_s = 0.0

    def follow(self, view: View) -> None:
        """See who came and went."""
        moved = len(view.arrived) + len(view.ended)
        for job in view.ended:
            self._forget(job)
        if moved:
            gap_s = (view.now - self._moved_s) / moved
            kept = (1.0 - GAP_MEMORY) ** moved
            self._gap_s = kept * self._gap_s + (1.0 - kept) * gap_s
            self._moved_s = view.now

    def _horizon_s(self, now: float) -> float:
        return max(LEAST_HORIZON_S, HORIZON_GAPS * max(self._gap_s, now - self._moved_s))

    def _forget(self, job: Job) -> None:
        self._curves.forget(job)
        self._plain.pop(job.job, None)
        self._running.pop(job.job, None)

    def of(self, view: View, jobs: Sequence[Job], gpus_per_node: int) -> Worth:
        """What every step of every job is worth now."""
        standings = self._standings(view, jobs, gpus_per_node)
        tenants = {tenant: _weight(view, tenant) for tenant in {job.spec.tenant for job in jobs}}
        ranks = _rank_values(np.array([standing.left_s for standing in standings]))
        steps: list[Steps] = []
        weights = np.empty(len(jobs))
        for place, standing in enumerate(standings):
            of_job, factor = self._steps(view, standing)
            steps.append(of_job)
            scale = standing.share**SPEEDUP_EXPONENT / standing.rate
            weights[place] = ranks[place] * scale * factor * tenants[standing.job.spec.tenant]
        return Worth(steps, weights)

    def _standings(self, view: View, jobs: Sequence[Job], gpus_per_node: int) -> list[_Standing]:
        equal = max(1, view.total_gpus // len(jobs))
        curves = [self._curves.of(view, job, gpus_per_node) for job in jobs]
        lefts = [work_left(view, job, curve) for job, curve in zip(jobs, curves, strict=True)]
        known = [left / c.fastest for left, c in zip(lefts, curves, strict=True) if left is not None]
        typical_s = median(known) / 2 if known else UNKNOWN_S / 2
        found = []
        for job, curve, left in zip(jobs, curves, lefts, strict=True):
            share = min(max(equal, curve.least), curve.most)
            work = max(typical_s, job.run_s(view.now)) * curve.fastest if left is None else left
            rate = curve.rate(share)
            found.append(_Standing(job, curve, share, rate, work / rate))
        return found

    def _steps(self, view: View, standing: _Standing) -> tuple[Steps, float]:
        """Steps of a job, and what all of them are to be multiplied with."""
        job, curve = standing.job, standing.curve
        costs, horizon_s = view.costs, self._horizon_s(view.now)
        if not job.gpus:
            cost_s = costs.start_s if job.first_start_s is None else costs.resume_s
            return self._unpenalised(job, curve), _kept(cost_s, min(horizon_s, standing.left_s + cost_s))
        if curve.least == curve.most == job.gpus:
            return self._unpenalised(job, curve), 1.0
        factor = _kept(costs.resize_s, min(horizon_s, standing.left_s + costs.resize_s)) * _not_lost(view, job)
        level = round(_LEVELS * factor)
        kept = self._running.get(job.job)
        if kept is None or kept[:3] != (curve, job.gpus, level):
            values = np.where(curve.sizes == job.gpus, curve.rates, curve.rates * level / _LEVELS)
            kept = self._running[job.job] = (curve, job.gpus, level, concave_steps(curve.sizes, values))
        return kept[3], 1.0

    def _unpenalised(self, job: Job, curve: Curve) -> Steps:
        kept = self._plain.get(job.job)
        if kept is None or kept[0] is not curve:
            kept = self._plain[job.job] = (curve, concave_steps(curve.sizes, curve.rates))
        return kept[1]


def _rank_values(lefts_s: Floats) -> Floats:
    """What progress counts by rank in time left, the longest first: heSRPT's values for the power law of speed."""
    order = np.argsort(-lefts_s, kind="stable")
    power = 1.0 / (1.0 - SPEEDUP_EXPONENT)
    ranks = np.arange(1, len(order) + 1, dtype=np.float64)
    values = np.empty(len(order))
    values[order] = (ranks**power - (ranks - 1) ** power) ** (1.0 / power)
    return values


def _kept(cost_s: float, lasts_s: float) -> float:
    """The part of the time that a change lasts which is not lost to it."""
    return max(0.0, 1.0 - cost_s / lasts_s) if cost_s else 1.0


def _not_lost(view: View, job: Job) -> float:
    """The part of its life that a job has not lost to changes, one more included."""
    changes = job.resizes + job.suspensions + 1
    return max(0.0, 1.0 - view.costs.resize_s * changes / (job.run_s(view.now) + GRACE_S))


def _weight(view: View, tenant: str) -> float:
    """The product of the weights from a tenant up to the root."""
    return math.prod(view.tenants[name].weight for name in view.tenants.path(tenant))
