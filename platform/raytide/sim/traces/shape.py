"""What a synthetic trace is drawn from; the defaults are the measured shape of the Philly trace.

Measured on the 82,247 jobs of Philly (msr-fiddle/philly-traces, CC-BY-4.0): mixtures by expectation maximisation on
the logarithms of durations, one per number of GPUs; submissions of one tenant at most 60 s apart make a sweep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from raytide.errors import ConfigError


def _check_above_0(owner: object, *fields: str) -> None:
    for field in fields:
        value = getattr(owner, field)
        if not 0 < value < math.inf:
            raise ConfigError(f"{type(owner).__name__}.{field}", f"{value} is not above 0", "Give more than 0")


def _check_counts(owner: object, *fields: str) -> None:
    for field in fields:
        value = getattr(owner, field)
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{type(owner).__name__}.{field}", f"{value} is no count", "Give a whole number above 0")


@dataclass(frozen=True)
class Lognormal:
    """A part of a mixture of durations.

    Attributes:
        share: Of the jobs, above 0; shares are relative to each other.
        median_s: Half of its jobs run for less.
        sigma: Standard deviation of the logarithm.
    """

    share: float
    median_s: float
    sigma: float

    def __post_init__(self) -> None:
        _check_above_0(self, "share", "median_s", "sigma")


@dataclass(frozen=True)
class SizeShare:
    """Jobs of one size.

    Attributes:
        gpus: What each of them asks for.
        share: Of all jobs, above 0; shares are relative to each other.
        durations: How long they run.
    """

    gpus: int
    share: float
    durations: tuple[Lognormal, ...]

    def __post_init__(self) -> None:
        _check_counts(self, "gpus")
        _check_above_0(self, "share")
        if not self.durations:
            raise ConfigError("SizeShare.durations", "there are none", "Give at least one Lognormal")


@dataclass(frozen=True)
class Arrivals:
    """When jobs come: tenants submit single jobs and sweeps of many, by day more than by night.

    Attributes:
        sweep_share: How many submissions are sweeps, 0 to 1; the others are single jobs.
        sweep_tail: A sweep has at least n jobs with probability (2/n) ** sweep_tail; smaller is heavier.
        largest_sweep: No sweep has more jobs, nor more than a tenth of the trace.
        sweep_gap_s: Mean time between the jobs of a sweep.
        day_swing: The rate over a day is 1 + day_swing * cos, 0 to 1.
        day_peak_h: The busiest hour.
        weekend: The rate on days 6 and 7 of a week, relative to the others; the trace begins with day 1.
    """

    sweep_share: float = 0.18
    sweep_tail: float = 1.0
    largest_sweep: int = 1000
    sweep_gap_s: float = 8.6
    day_swing: float = 0.28
    day_peak_h: float = 5.0
    weekend: float = 0.52

    def __post_init__(self) -> None:
        _check_counts(self, "largest_sweep")
        _check_above_0(self, "sweep_tail", "sweep_gap_s", "weekend")
        for field in ("sweep_share", "day_swing"):
            if not 0 <= getattr(self, field) <= 1:
                raise ConfigError(f"Arrivals.{field}", f"{getattr(self, field)} is outside 0..1", "Give a share")


PHILLY_SIZES = (
    SizeShare(
        1,
        0.9317,
        (
            Lognormal(0.176, 65, 0.16),
            Lognormal(0.147, 171, 1.00),
            Lognormal(0.394, 1971, 0.73),
            Lognormal(0.283, 2749, 2.15),
        ),
    ),
    SizeShare(2, 0.0221, (Lognormal(0.644, 18, 0.34), Lognormal(0.184, 44, 1.45), Lognormal(0.172, 88981, 1.24))),
    SizeShare(4, 0.0227, (Lognormal(0.280, 207, 1.13), Lognormal(0.551, 27955, 1.67), Lognormal(0.169, 117382, 0.42))),
    SizeShare(8, 0.0200, (Lognormal(0.319, 504, 1.58), Lognormal(0.249, 15224, 0.78), Lognormal(0.432, 198390, 0.82))),
    SizeShare(16, 0.0025, (Lognormal(0.335, 148, 1.44), Lognormal(0.119, 9584, 0.85), Lognormal(0.546, 149891, 0.92))),
    SizeShare(32, 0.0010, (Lognormal(0.69, 1364, 2.0), Lognormal(0.31, 52227, 0.13))),
)
"""Sizes of Philly's jobs and their durations. The 23 jobs of 12, 24, 64 and 128 GPUs count as 16 or 32; these are
too few for a fit, so the first sigma of 32 was lowered by hand (2.68 to 2.0), which brings the mean near."""


@dataclass(frozen=True)
class SyntheticTrace:
    """Parameters of a synthetic trace.

    Attributes:
        jobs: How many.
        span_s: All are submitted in the first ``span_s`` seconds. Philly had about 1,000 jobs a day.
        tenants: How many submit.
        seed: Equal parameters with equal seeds give equal traces.
        tenant_skew: The k-th tenant makes submissions in proportion to k ** -tenant_skew; 0 is even.
        longest_s: No job runs longer.
        sizes: How large jobs are, and how long they run.
        arrivals: When they come.

    Raises:
        ConfigError: A value is out of range; ``field`` names it.
    """

    jobs: int = 1000
    span_s: float = 86_400.0
    tenants: int = 15
    seed: int = 0
    tenant_skew: float = 1.75
    longest_s: float = 5e6
    sizes: tuple[SizeShare, ...] = PHILLY_SIZES
    arrivals: Arrivals = Arrivals()

    def __post_init__(self) -> None:
        _check_counts(self, "jobs", "tenants")
        _check_above_0(self, "span_s")
        if not 0 <= self.tenant_skew < math.inf:
            raise ConfigError("SyntheticTrace.tenant_skew", f"{self.tenant_skew} is no exponent", "Give 0 or more")
        if not 1 <= self.longest_s < math.inf:
            raise ConfigError("SyntheticTrace.longest_s", f"{self.longest_s} is below 1", "Give at least 1 second")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ConfigError("SyntheticTrace.seed", f"{self.seed} is no seed", "Give a whole number from 0 up")
        if not self.sizes:
            raise ConfigError("SyntheticTrace.sizes", "there are none", "Give at least one SizeShare")
