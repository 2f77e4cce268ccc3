"""How fast a job is at each size: measured tables, and a curve fitted to a few measurements.

Speeds may fall with size (a model that is mostly communication), so nothing here assumes that more is faster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeGuard

from raytide.core.model import Shape
from raytide.errors import ConfigError


class SpeedModel(Protocol):
    """Speed of a job by size, in any unit of work per second that is the same at all sizes."""

    def speed(self, gpus: int, nodes: int = 1) -> float:
        """Work per second on so many GPUs of so many nodes; 0 on none."""


class ShapeSpeedModel(Protocol):
    """Speed of a job whose roles do not count alike, such as workers and servers."""

    def shape_speed(self, shape: Shape) -> float:
        """Work per second of this shape; 0 of the empty one."""


def knows_shapes(model: SpeedModel) -> TypeGuard[ShapeSpeedModel]:
    """Whether a model tells the speed of shapes; asked at every change of a job, so not through slow ``isinstance``."""
    return hasattr(model, "shape_speed")


@dataclass(frozen=True)
class LinearSpeed:
    """Twice the GPUs, twice the speed: what is assumed where nothing is known.

    Attributes:
        per_gpu: Work per second of one GPU.
    """

    per_gpu: float = 1.0

    def speed(self, gpus: int, nodes: int = 1) -> float:
        return self.per_gpu * gpus


@dataclass(frozen=True)
class SpeedTable:
    """Measured speeds, linear between the sizes measured and constant beyond the largest.

    Attributes:
        measured: Work per second by number of GPUs. Below the smallest size, speed falls in proportion to it.
    """

    measured: Mapping[int, float] = field(hash=False)

    def __post_init__(self) -> None:
        if not self.measured or any(gpus < 1 or not speed > 0 for gpus, speed in self.measured.items()):
            problem = f"{dict(self.measured)} is no table of speeds by number of GPUs"
            raise ConfigError("SpeedTable.measured", problem, "Give positive speeds at one or more sizes from 1 on")

    @cached_property
    def _sizes(self) -> list[int]:
        return sorted(self.measured)

    @cached_property
    def _known(self) -> dict[int, float]:
        return {}

    def speed(self, gpus: int, nodes: int = 1) -> float:
        known = self._known.get(gpus)
        if known is None:
            known = self._known[gpus] = self._interpolated(gpus)
        return known

    def _interpolated(self, gpus: int) -> float:
        sizes = self._sizes
        above = bisect_left(sizes, gpus)
        if above == len(sizes):
            return self.measured[sizes[-1]]
        if above == 0:
            return self.measured[sizes[0]] * gpus / sizes[0]
        low, high = sizes[above - 1], sizes[above]
        share = (gpus - low) / (high - low)
        return self.measured[low] * (1 - share) + self.measured[high] * share


@dataclass(frozen=True)
class TypedSpeed:
    """One speed model for each type of GPU; without a type, or for one that nobody measured, the slowest that it knows.

    Attributes:
        by_type: Models by GPU type, all in the same unit of work.
    """

    by_type: Mapping[str, SpeedModel] = field(hash=False)

    def __post_init__(self) -> None:
        if not self.by_type:
            raise ConfigError("TypedSpeed.by_type", "no GPU type is given", "Give the speeds on one type at least")

    def on(self, gpu_type: str) -> SpeedModel:
        """Speeds on GPUs of this type."""
        return self.by_type.get(gpu_type, self)

    def speed(self, gpus: int, nodes: int = 1) -> float:
        return min(model.speed(gpus, nodes) for model in self.by_type.values())


def speed_on(model: SpeedModel, gpu_type: str) -> SpeedModel:
    """What is known for GPUs of one type; models that know no types are the same for all."""
    return model.on(gpu_type) if isinstance(model, TypedSpeed) else model


@dataclass(frozen=True)
class ServerSpeed:
    """Synchronous training with parameter servers.

    ``step = compute / workers + fixed + transfer * workers / servers + worker * workers + server * servers``: the form
    of Peng et al., *Optimus*, EuroSys 2018, section 3.2, with one global batch.

    Attributes:
        compute_s: Seconds of the part that workers share.
        fixed_s: Seconds that nobody shortens.
        transfer_s: Seconds for which one worker keeps one server busy.
        worker_s, server_s: Seconds that each worker and each server adds.
    """

    compute_s: float
    fixed_s: float = 0.0
    transfer_s: float = 0.0
    worker_s: float = 0.0
    server_s: float = 0.0

    def step_s(self, workers: int, servers: int) -> float:
        """Seconds of one step."""
        shared_s, added_s = self.compute_s / workers, self.worker_s * workers + self.server_s * servers
        return shared_s + self.transfer_s * workers / servers + self.fixed_s + added_s

    def shape_speed(self, shape: Shape) -> float:
        return 1.0 / self.step_s(shape["worker"], shape["server"]) if shape else 0.0

    def speed(self, gpus: int, nodes: int = 1) -> float:
        """As if every GPU were a worker with a server of its own."""
        return 1.0 / self.step_s(gpus, gpus) if gpus else 0.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured step time.

    Attributes:
        gpus: Replicas it was measured with, one GPU each.
        nodes: Nodes they were on.
        step_s: Seconds of one step of the whole global batch.
    """

    gpus: int
    nodes: int
    step_s: float

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= self.gpus or not self.step_s > 0:
            problem = f"{self.step_s} s on {self.gpus} GPUs of {self.nodes} nodes"
            raise ConfigError("Measurement", problem, "Give 1 <= nodes <= gpus and a positive step time")


NETWORK_FACTOR = 1.1
"""As long as nobody has measured several nodes, their communication counts this many times that inside one
(the bound that Pollux's fit uses: Qiao et al., OSDI 2021, section 3.2)."""

_PRIOR = 1e-5
"""Weight of the assumption that a job is all compute, where measurements leave the choice."""

_LEAST_COMPUTE = 0.01
"""Part of the measured GPU time that is compute, whatever noise says: no step takes no time."""


@dataclass(frozen=True)
class SpeedCurve:
    """A fitted step time: compute that is divided, and communication that is not.

    ``step = compute / gpus + fixed + latency + slope * (gpus - 2)``, with a latency and a slope of their own inside one
    node and across several, both 0 for one GPU. All coefficients are at least 0.

    Attributes:
        compute_s: Seconds of the part that GPUs share.
        fixed_s: Seconds that no GPU shortens.
        local_s, local_slope_s: Communication inside one node, and its growth with every GPU beyond two.
        network_s, network_slope_s: The same across nodes.
    """

    compute_s: float
    fixed_s: float
    local_s: float
    local_slope_s: float
    network_s: float
    network_slope_s: float

    def step_s(self, gpus: int, nodes: int = 1) -> float:
        """Seconds of one step."""
        step_s = self.compute_s / gpus + self.fixed_s
        if gpus == 1:
            return step_s
        latency_s, slope_s = (self.network_s, self.network_slope_s) if nodes > 1 else (self.local_s, self.local_slope_s)
        return step_s + latency_s + slope_s * (gpus - 2)

    def speed(self, gpus: int, nodes: int = 1) -> float:
        return 1.0 / self.step_s(gpus, nodes) if gpus else 0.0


def fit_curve(measurements: Iterable[Measurement]) -> SpeedCurve:
    """Fit a curve to one measurement or more: non-negative least squares of relative errors.

    With one size the whole step counts as compute; two sizes already tell compute from communication. Coefficients
    that nothing was measured for stay 0 inside a node; across nodes they follow those inside.

    Raises:
        ConfigError: There is no measurement.
    """
    import numpy as np  # noqa: PLC0415 - half a second of imports that rigid simulations need not pay
    from scipy.optimize import nnls  # noqa: PLC0415 - as above

    rows = list(measurements)
    if not rows:
        raise ConfigError("fit_curve(measurements)", "there is none", "Measure the job at one size at least")
    system = np.array([[value / row.step_s for value in _terms(row)] for row in rows])
    mean_s = sum(row.step_s for row in rows) / len(rows)
    prior = np.diag([0.0, 1.0, 1.0, 1.0, 1.0, 1.0]) * _PRIOR / mean_s
    least_compute_s = _LEAST_COMPUTE * min(row.step_s * row.gpus for row in rows)
    target = np.concatenate([1.0 - least_compute_s * system[:, 0], np.zeros(len(prior))])
    found, _ = nnls(np.vstack([system, prior]), target)
    found[0] += least_compute_s
    compute, fixed, local, local_slope, network, network_slope = (float(value) for value in found)
    if not any(row.nodes > 1 for row in rows):
        network, network_slope = NETWORK_FACTOR * local, NETWORK_FACTOR * local_slope
    elif not any(row.nodes == 1 < row.gpus for row in rows):
        local, local_slope = network / NETWORK_FACTOR, network_slope / NETWORK_FACTOR
    return SpeedCurve(compute, fixed, local, local_slope, network, network_slope)


def _terms(row: Measurement) -> tuple[float, ...]:
    """What the coefficients of a curve are multiplied with."""
    beyond = float(row.gpus - 2)
    if row.gpus == 1:
        return (1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    if row.nodes == 1:
        return (1.0 / row.gpus, 1.0, 1.0, beyond, 0.0, 0.0)
    return (1.0 / row.gpus, 1.0, 0.0, 0.0, 1.0, beyond)
