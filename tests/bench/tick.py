"""How long the controller takes: 2,000 elastic jobs of ten tenants on 1,250 nodes of eight GPUs, one instant at a time.

Every measured tick brings one arrival, one end, and a hundred reports of speed and progress; changes are instant, so
that what is commanded is carried out in the same tick. Times are of the processor, on one core. ``cold_ms`` is the
first decision, over all jobs at once; ``review_ms`` the median of ticks that come so late after the last one that the
policy looks at all jobs again; ``growth`` the exponent of ``p50_ms`` over the size of the cluster from 1,000 to
10,000 GPUs, with a fifth as many jobs: 1 is linear.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

from _support import emit, exponent, say, seed_and_folder

from raytide.core import Controller, ControllerConfig, JobSpec, Measurement, Node, Role, Tenant, TenantTree, fit_curve
from raytide.core.events import Event, Finished, Measured, Progressed, Submitted
from raytide.policies.registry import make_placer, make_policy

POLICY = "tide"
GPUS = (1_000, 2_500, 5_000, 10_000)
GPUS_PER_JOB = 5
TICKS = 200
REPORTS = 100
REVIEWS, LONG_GAP_S = 11, 3600.0
TENANTS = 10
"""The k-th submits in proportion to 1/k and has a limit of a fifth of the cluster, which the first one meets."""
SIZES = {1: 25, 2: 15, 4: 20, 8: 20, 16: 12, 32: 8}
"""GPUs that jobs request, with weights; 7.4 on average, half as many again as there are."""
MOST_GPUS = 64
SPEEDS = {
    f"model-{part}": fit_curve(
        [Measurement(1, 1, 1.0), Measurement(4, 1, 0.25 + part), Measurement(16, 2, 0.07 + 1.2 * part)]
    )
    for part in (0.0, 0.01, 0.03, 0.1, 0.3)
}
"""Models by the part of a step that no GPU shortens."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of the first decision, of each tick a second after another, and of each after a long gap."""

    cold_ms: float
    tick_ms: list[float]
    review_ms: list[float]

    def quantile(self, share: float) -> float:
        return sorted(self.tick_ms)[round(share * (len(self.tick_ms) - 1))]


class Load:
    """Jobs that come, report and end, around a controller.

    Args:
        policy: Its name.
        gpus: Of the cluster.
        seed: Of everything that is drawn.
    """

    def __init__(self, policy: str, gpus: int, seed: int) -> None:
        self._rng = random.Random(seed)
        nodes = [Node(f"n{number}", 8) for number in range(gpus // 8)]
        tenants = TenantTree(
            [Tenant(f"t{number}", guaranteed_gpus=gpus // 20, limit_gpus=gpus // 5) for number in range(TENANTS)]
        )
        config = ControllerConfig(instant=True, speeds=SPEEDS)
        self._controller = Controller(make_policy(policy), make_placer("pack"), nodes, tenants, config)
        self._submitted = 0
        self._now = 0.0

    def tick(self, events: list[Event], after_s: float = 1.0) -> float:
        """One round; returns its milliseconds."""
        self._now += after_s
        started_s = time.process_time()
        self._controller.tick(self._now, events)
        return 1e3 * (time.process_time() - started_s)

    def arrivals(self, count: int) -> list[Event]:
        """Jobs that nobody has seen."""
        return [Submitted(self._job()) for _ in range(count)]

    def instant(self) -> list[Event]:
        """What a measured tick brings."""
        holding = self._controller.table.holding
        ending, *reporting = self._rng.sample(sorted(holding), min(1 + REPORTS, len(holding)))
        events: list[Event] = [Finished(ending), *self.arrivals(1)]
        for name in reporting:
            job = holding[name]
            done = (job.spec.work or 0.0) - job.work_left(self._now)
            events += [Measured(name, job.shape, 100.0 * job.gpus), Progressed(name, done)]
        return events

    def _job(self) -> JobSpec:
        rng = self._rng
        self._submitted += 1
        (requested,) = rng.choices(list(SIZES), list(SIZES.values()))
        role = Role("replica", max(1, requested // 2), min(4 * requested, MOST_GPUS))
        (tenant,) = rng.choices(range(TENANTS), [1 / (number + 1) for number in range(TENANTS)])
        model = rng.choice(list(SPEEDS))
        duration_s = rng.lognormvariate(8.0, 1.5)
        return JobSpec(
            job=f"j{self._submitted}",
            tenant=f"t{tenant}",
            submitted_s=self._now,
            roles=(role,),
            requested=requested,
            duration_s=duration_s,
            work=duration_s * SPEEDS[model].speed(requested, 1 + requested // 9),
            model=model,
        )


def measure(policy: str, gpus: int, seed: int, ticks: int = TICKS) -> Times:
    """Fill a cluster, then let jobs come and go."""
    load = Load(policy, gpus, seed)
    cold_ms = load.tick(load.arrivals(gpus // GPUS_PER_JOB))
    tick_ms = [load.tick(load.instant()) for _ in range(ticks)]
    return Times(cold_ms, tick_ms, [load.tick(load.instant(), LONG_GAP_S) for _ in range(REVIEWS)])


def main(seed: int, out: Path | None) -> None:
    """Measure and print."""
    times = {}
    for gpus in GPUS:
        times[gpus] = measure(POLICY, gpus, seed)
        say(f"{POLICY}: {gpus:,} GPUs, {gpus // GPUS_PER_JOB:,} jobs: {times[gpus].quantile(0.5):.1f} ms")
    if out is not None:
        rows = [f"{gpus},{number},{ms}" for gpus in GPUS for number, ms in enumerate(times[gpus].tick_ms)]
        (out / "ticks.csv").write_text("\n".join(["gpus,tick,ms", *rows]) + "\n")
    largest = times[GPUS[-1]]
    emit(
        {
            "policy": POLICY,
            "p50_ms": largest.quantile(0.5),
            "p99_ms": largest.quantile(0.99),
            "cold_ms": largest.cold_ms,
            "review_ms": sorted(largest.review_ms)[REVIEWS // 2],
            "growth": exponent(GPUS, [times[gpus].quantile(0.5) for gpus in GPUS]),
        }
    )


if __name__ == "__main__":
    main(*seed_and_folder(__doc__))
