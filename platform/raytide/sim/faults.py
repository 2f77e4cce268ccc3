"""Nodes that fail and are repaired, and spot nodes that the cloud takes back, drawn from a seed."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter

from raytide.core import Node
from raytide.core.events import Event, NodeDraining, NodeJoined, NodeLost
from raytide.durations import parse_duration
from raytide.errors import ConfigError
from raytide.sim.settings import parse_settings

Fault = tuple[float, Event]
_EXAMPLE = {"mtbf": "6h", "repair": "30m", "spot": "1d", "notice": "2m", "away": "1h"}


@dataclass(frozen=True)
class FaultRates:
    """How often each node goes and for how long. All but the notice are means of exponential distributions.

    Attributes:
        mtbf_s: From a node's return to its next failure; infinite: it never fails.
        repair_s: From a failure to the return.
        spot_s: From a node's return to its next reclaim; infinite: it is never reclaimed.
        notice_s: From the announcement of a reclaim to the loss, always the same; jobs are moved away meanwhile.
        away_s: From that loss to the node that replaces it.
    """

    mtbf_s: float = math.inf
    repair_s: float = 1800.0
    spot_s: float = math.inf
    notice_s: float = 120.0
    away_s: float = 3600.0

    def __post_init__(self) -> None:
        for rate in fields(self):
            value = getattr(self, rate.name)
            if not value > 0:
                raise ConfigError(f"FaultRates.{rate.name}", f"{value} is no length of time", "Give seconds above 0")


def parse_faults(text: str) -> FaultRates:
    """``mtbf=6h,repair=30m`` and ``spot=1d,notice=2m,away=1h``, or both.

    Raises:
        ConfigError: It means nothing, or no node would ever go.
    """
    given = parse_settings("faults", text, _EXAMPLE)
    if not given.keys() & {"mtbf", "spot"}:
        raise ConfigError("faults", "no node ever goes", "Give mtbf=6h for failures, or spot=1d for reclaims")
    return FaultRates(**{f"{key}_s": parse_duration(f"faults: {key}", value) for key, value in given.items()})


@dataclass(frozen=True)
class RandomFaults:
    """Faults in the order of time, the same ones whenever they are iterated.

    Every node has a sequence of its own, so that a larger cluster has the faults of the smaller one and more.

    Attributes:
        nodes: All are there at first.
        rates: How often they go.
        seed: Of what is drawn.
        from_s: Nothing happens before.
        until_s: Later no node goes any more; those that are away come back.
    """

    nodes: Sequence[Node]
    rates: FaultRates
    seed: int
    from_s: float
    until_s: float

    def __iter__(self) -> Iterator[Fault]:
        return heapq.merge(*(self._life(node) for node in self.nodes), key=itemgetter(0))

    def _life(self, node: Node) -> Iterator[Fault]:
        rng, rates = random.Random(f"{self.seed} {node.node}"), self.rates
        now = self.from_s
        while True:
            fails_s, reclaimed_s = (now + _draw(rng, mean_s) for mean_s in (rates.mtbf_s, rates.spot_s))
            now = min(fails_s, reclaimed_s)
            if now > self.until_s:
                return
            away_s = rates.repair_s
            if reclaimed_s < fails_s:
                yield now, NodeDraining(node.node)
                now += rates.notice_s
                away_s = rates.away_s
            yield now, NodeLost(node.node)
            now += _draw(rng, away_s)
            yield now, NodeJoined(node)


def _draw(rng: random.Random, mean_s: float) -> float:
    return mean_s if math.isinf(mean_s) else rng.expovariate(1 / mean_s)
