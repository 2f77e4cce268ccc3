"""Figures of the same study with several seeds: what they are on average, and how far they spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any


def mean_figures(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of every figure, over the seeds in which it exists; None where it exists in none.

    Args:
        runs: What :func:`~raytide.sim.report.figures.summary` said for each seed.
    """
    return _combine(runs, fewest=1)


def spread_figures(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sample standard deviation of every figure; None where it exists for fewer than two seeds.

    Args:
        runs: What :func:`~raytide.sim.report.figures.summary` said for each seed.
    """
    return _combine(runs, fewest=2)


def _combine(runs: Sequence[Mapping[str, Any]], fewest: int) -> dict[str, Any]:
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: _combined([run[name] for run in runs if name in run], fewest) for name in names}


def _combined(values: Sequence[Any], fewest: int) -> Any:
    known = [value for value in values if value is not None]
    if known and isinstance(known[0], Mapping):
        return _combine(known, fewest)
    if len(known) < fewest:
        return None
    return fmean(known) if fewest == 1 else stdev(known)
