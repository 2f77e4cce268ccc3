"""Synthetic traces in the shape of public ones: as many jobs as wanted, over any span, from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from raytide.sim.traces.job import TraceJob
from raytide.sim.traces.shape import Lognormal, SyntheticTrace

_HOUR_S = 3600.0
_DAY_H = 24
_WEEK_DAYS = 7
_MUCH = 30.0
"""Its exponential is more than any number of jobs."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def generate(parameters: SyntheticTrace) -> list[TraceJob]:
    """Draw a trace.

    Submissions are single jobs or sweeps; each is one tenant's, at an instant drawn from the daily and weekly rate.
    Every job draws its size, and then its duration from the mixture of that size, so that sizes and durations have
    the given shares. Times are whole seconds. (Philly's sweeps repeat one job with slightly different settings; here
    the jobs of a sweep are as different as any.)

    Returns:
        Jobs sorted by submission, numbered from 0 in that order; tenants are ``tenant-1`` (most) and so on.
    """
    rng = np.random.default_rng(parameters.seed)
    sweep = _sweeps(rng, parameters)
    submit_s = _submissions(rng, parameters, sweep)
    tenant = _tenants(rng, parameters, int(sweep[-1]) + 1)[sweep]
    size = _choices(rng, [entry.share for entry in parameters.sizes], parameters.jobs)
    duration_s = _durations(rng, parameters, size)
    order = np.argsort(submit_s, kind="stable")
    return [
        TraceJob(str(number), f"tenant-{tenant[at] + 1}", float(submit_s[at]), parameters.sizes[size[at]].gpus, length)
        for number, (at, length) in enumerate(zip(order.tolist(), duration_s[order].tolist(), strict=True))
    ]


def _sweeps(rng: np.random.Generator, parameters: SyntheticTrace) -> Integers:
    """For every job the number of its submission; a submission of several jobs is a sweep."""
    arrivals = parameters.arrivals
    count = parameters.jobs  # enough even if all are single
    largest = max(1, min(arrivals.largest_sweep, parameters.jobs // 10))
    jobs = np.floor(2 * np.exp(np.minimum(rng.exponential(1 / arrivals.sweep_tail, count), _MUCH)))
    jobs = np.where(rng.random(count) < arrivals.sweep_share, np.minimum(jobs, largest), 1)
    return np.repeat(np.arange(count), jobs.astype(np.int64))[:count]


def _submissions(rng: np.random.Generator, parameters: SyntheticTrace, sweep: Integers) -> Floats:
    """When every job comes; a sweep that would pass the end of the span goes on at its start."""
    starts_s = _starts(rng, parameters, int(sweep[-1]) + 1)
    gaps_s = rng.exponential(parameters.arrivals.sweep_gap_s, len(sweep))
    gaps_s[np.diff(sweep, prepend=-1) > 0] = 0.0
    since_s = np.cumsum(gaps_s)
    first = np.searchsorted(sweep, sweep)  # where the job's sweep begins
    return np.floor((starts_s[sweep] + since_s - since_s[first]) % parameters.span_s)


def _starts(rng: np.random.Generator, parameters: SyntheticTrace, count: int) -> Floats:
    """Instants drawn in proportion to the rate, which is constant for an hour."""
    edges_s = np.append(np.arange(0.0, parameters.span_s, _HOUR_S), parameters.span_s)
    expected = np.append(0.0, np.cumsum(_rates(parameters, len(edges_s) - 1) * np.diff(edges_s)))
    starts_s: Floats = np.interp(rng.random(count) * expected[-1], expected, edges_s)
    return starts_s


def _rates(parameters: SyntheticTrace, hours: int) -> Floats:
    arrivals = parameters.arrivals
    middle_h = np.arange(hours) + 0.5
    by_day = 1 + arrivals.day_swing * np.cos(2 * np.pi * (middle_h - arrivals.day_peak_h) / _DAY_H)
    is_weekend = middle_h // _DAY_H % _WEEK_DAYS >= _WEEK_DAYS - 2
    return np.where(is_weekend, arrivals.weekend, 1.0) * by_day


def _tenants(rng: np.random.Generator, parameters: SyntheticTrace, count: int) -> Integers:
    ranks = np.arange(1, parameters.tenants + 1, dtype=np.float64)
    return _choices(rng, (ranks**-parameters.tenant_skew).tolist(), count)


def _durations(rng: np.random.Generator, parameters: SyntheticTrace, size: Integers) -> Floats:
    logarithms = np.empty(len(size))
    for number, entry in enumerate(parameters.sizes):
        chosen = size == number
        logarithms[chosen] = _mixture(rng, entry.durations, int(chosen.sum()))
    duration_s = np.exp(np.minimum(logarithms, np.log(parameters.longest_s)))
    return np.clip(np.rint(duration_s), 1.0, np.floor(parameters.longest_s))


def _mixture(rng: np.random.Generator, parts: Sequence[Lognormal], count: int) -> Floats:
    """Logarithms of durations."""
    part = _choices(rng, [entry.share for entry in parts], count)
    centre = np.log([entry.median_s for entry in parts])[part]
    sigma = np.array([entry.sigma for entry in parts])[part]
    return rng.normal(centre, sigma)


def _choices(rng: np.random.Generator, shares: Sequence[float], count: int) -> Integers:
    weights = np.asarray(shares) / np.sum(shares)
    return rng.choice(len(shares), size=count, p=weights).astype(np.int64)
