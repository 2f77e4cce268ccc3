"""How long a training step takes, of which how long it waits for the network, on a given placement.

Pollux (Qiao et al., OSDI'21) measured steps on up to four nodes for every placement there is, and on up
to 16 nodes for evenly spread ones; what was not measured is interpolated between these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import LinearNDInterpolator
from scipy.spatial import QhullError

from raytide.errors import ConfigError, RaytideError
from raytide.sim.pollux.tables import FloatArray

Placement = tuple[int, ...]
"""GPUs on each node, in the order in which the job's ranks go round; nodes without any may be left out or 0.

Pollux's simulator takes the order in which the nodes were chosen, not that of their names. It matters: 3, 2, 2, 1
was measured apart from 2, 2, 3, 1, and its steps are 5 % shorter for ImageNet.
"""

MOST_NODES = 16
"""Nodes of the measured cluster; a job on more is taken to be as fast as on these."""


class Times(NamedTuple):
    """Seconds of one step: in all (forward, backward, network), and what the network adds to computing."""

    step_s: float
    sync_s: float


class NotMeasuredError(RaytideError, ValueError):
    """A step time was asked for outside the range of the measurements."""

    def __init__(self, placement: Placement, local_batch: int, measured: str) -> None:
        super().__init__(placement, local_batch, measured)
        self.placement = placement
        self.local_batch = local_batch
        self.measured = measured

    def __str__(self) -> str:
        return (
            f"no step time for {self.local_batch} samples per GPU on placement {self.placement}; "
            f"measured: {self.measured}"
        )


@lru_cache(maxsize=1 << 16)
def canonical(placement: Placement) -> Placement:
    """Name all placements that a ring over the nodes cannot tell apart by one: zeros dropped, least rotation.

    Raises:
        ConfigError: There is no GPU in it.
    """
    held = tuple(gpus for gpus in placement if gpus)
    if not held:
        raise ConfigError("placement", f"{placement} holds no GPU", "Ask for times of running jobs only.")
    return min(held[turn:] + held[:turn] for turn in range(len(held)))


class StepTimes:
    """Step and sync time of one application for any placement and local batch.

    A placement that was measured is linear in the local batch. Any other is interpolated linearly inside
    the simplices of a Delaunay triangulation over (nodes, replicas, local batch), axes as they are.
    The points lie on a lattice, so several triangulations are valid, and which one is made depends on their order:
    measured placements first, averaged and sorted, then ``spread`` as given, which reproduces Pollux's figures.

    The first interpolated value costs the triangulation, some 50 ms (more if BLAS threads share busy cores).
    Every value is computed once: what depends on the placement itself can only be one of the measured
    ones, so what is remembered stays small whatever a simulation asks for.

    Args:
        measured: Rows of (local batch, step time, sync time), shape (rows, 3), by canonical placement; local
            batches ascend.
        spread: Rows of (nodes, replicas, local batch, step time, sync time), shape (rows, 5), of replicas
            spread evenly over nodes. Times in seconds.
    """

    def __init__(self, measured: Mapping[Placement, FloatArray], spread: FloatArray) -> None:
        self._measured = dict(measured)
        self._points = np.vstack([_averaged(measured), spread])
        self._interpolator: LinearNDInterpolator | None = None
        self._exact: dict[tuple[Placement, int], Times] = {}
        self._between: dict[tuple[int, int, int], Times] = {}

    def at(self, placement: Placement, local_batch: int) -> Times:
        """Times of one step of ``local_batch`` samples per GPU, in seconds.

        Raises:
            ConfigError: The placement is empty.
            NotMeasuredError: It lies outside the measurements.
        """
        shape = canonical(placement)
        if shape in self._measured:
            exact = (shape, local_batch)
            if exact not in self._exact:
                self._exact[exact] = self._on_curve(shape, local_batch)
            return self._exact[exact]
        between = (min(len(shape), MOST_NODES), sum(shape), local_batch)
        if between not in self._between:
            self._between[between] = self._interpolated(shape, between)
        return self._between[between]

    def _on_curve(self, shape: Placement, local_batch: int) -> Times:
        locals_, steps, syncs = self._measured[shape].T
        if not locals_[0] <= local_batch <= locals_[-1]:
            raise NotMeasuredError(shape, local_batch, f"{locals_[0]:.0f} to {locals_[-1]:.0f} samples per GPU")
        return Times(float(np.interp(local_batch, locals_, steps)), float(np.interp(local_batch, locals_, syncs)))

    def _interpolated(self, shape: Placement, point: tuple[int, int, int]) -> Times:
        if self._interpolator is None:
            self._interpolator = self._triangulate(shape, point[-1])
        step_s, sync_s = map(float, self._interpolator([point])[0])
        if np.isnan(step_s):
            raise NotMeasuredError(shape, point[-1], self._range())
        return Times(step_s, sync_s)

    def _triangulate(self, shape: Placement, local_batch: int) -> LinearNDInterpolator:
        try:
            return LinearNDInterpolator(self._points[:, :3], self._points[:, 3:])
        except QhullError as error:
            few = f"{len(self._points)} points, too few or too alike to interpolate between"
            raise NotMeasuredError(shape, local_batch, few) from error

    def _range(self) -> str:
        low, high = self._points[:, :3].min(axis=0), self._points[:, :3].max(axis=0)
        names = ("nodes", "GPUs", "samples per GPU")
        ranges = [f"{a:.0f} to {b:.0f} {name}" for name, a, b in zip(names, low, high, strict=True)]
        return f"{', '.join(ranges)}, not in every combination"


def _averaged(measured: Mapping[Placement, FloatArray]) -> FloatArray:
    """Average placements of as many nodes, replicas and local batch: shape (points, 5), sorted by these."""
    groups: defaultdict[tuple[int, int, float], list[FloatArray]] = defaultdict(list)
    for placement, rows in measured.items():
        for row in rows:
            groups[len(placement), sum(placement), float(row[0])].append(row[1:])
    return np.array([(*point, *np.mean(groups[point], axis=0)) for point in sorted(groups)])
