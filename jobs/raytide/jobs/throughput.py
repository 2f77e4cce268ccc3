"""Throughput tables: how long a replica computes in a step, for jobs that only pretend to compute."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from raytide.errors import ConfigError

RESNET50_ON_T4: dict[int, float] = {20: 135.7, 40: 157.8, 81: 192.5, 163: 213.8, 200: 216.6}
"""Images/s of ResNet-50 (ImageNet) on one T4 GPU, by local batch size.

A few figures from the measurements published with the Pollux scheduler (petuum/adaptdl, branch
osdi21-artifact, simulator/traces/imagenet; Apache-2.0), rounded. Gradient exchange is under 1 % of a
step in them, so they stand for computation alone.
"""


class BatchTable:
    """Samples/s of one replica by its local batch size.

    Between two sizes of the table the time of a step is interpolated; beyond its ends the rate of the
    nearest size holds.
    """

    def __init__(self, rates: Mapping[int, float]) -> None:
        self._sizes, self._rates = _sorted(rates)

    def compute_s(self, local_batch: int, world_size: int) -> float:
        """Seconds that one replica computes for its share of a step."""
        del world_size  # a replica's own speed does not depend on the others
        above = bisect_left(self._sizes, local_batch)
        if above == 0 or above == len(self._sizes):
            return local_batch / self._rates[min(above, len(self._rates) - 1)]
        low, high = self._sizes[above - 1 : above + 1]
        low_s, high_s = low / self._rates[above - 1], high / self._rates[above]
        return low_s + (high_s - low_s) * (local_batch - low) / (high - low)


class ScalingTable:
    """Samples/s of the whole job by its number of replicas, such as ``{1: 100, 2: 190, 4: 350}``.

    Between two sizes of the table the efficiency (rate per replica) is interpolated; beyond its ends
    that of the nearest size holds. The real exchange of gradients comes on top of the waits.
    """

    def __init__(self, rates: Mapping[int, float]) -> None:
        self._sizes, totals = _sorted(rates)
        self._per_replica = [total / size for size, total in zip(self._sizes, totals, strict=True)]

    def compute_s(self, local_batch: int, world_size: int) -> float:
        """Seconds that one replica computes for its share of a step."""
        above = bisect_left(self._sizes, world_size)
        if above == 0 or above == len(self._sizes):
            return local_batch / self._per_replica[min(above, len(self._sizes) - 1)]
        low, high = self._sizes[above - 1 : above + 1]
        low_rate, high_rate = self._per_replica[above - 1 : above + 1]
        return local_batch / (low_rate + (high_rate - low_rate) * (world_size - low) / (high - low))


TABLES: dict[str, type[BatchTable | ScalingTable]] = {"local_batch": BatchTable, "replicas": ScalingTable}


def make_table(kind: str, rates: Mapping[int, float]) -> BatchTable | ScalingTable:
    """The table of a configuration: ``rates_by`` is its kind, ``rates`` its figures."""
    if kind not in TABLES:
        raise ConfigError("rates_by", f"{kind!r} is no kind of table", f"Choose from {', '.join(TABLES)}")
    return TABLES[kind](rates)


def _sorted(rates: Mapping[int, float]) -> tuple[list[int], list[float]]:
    if not rates or min(rates) < 1 or min(rates.values()) <= 0:
        remedy = "Map sizes of at least 1 to positive samples/s, such as {1: 100.0}"
        raise ConfigError("rates", f"{dict(rates)!r} is no throughput table", remedy)
    sizes = sorted(rates)
    return sizes, [float(rates[size]) for size in sizes]
