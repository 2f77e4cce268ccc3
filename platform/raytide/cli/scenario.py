"""What is simulated under every policy: trace, cluster, quotas, costs and faults, as the command line has them."""

# ruff: noqa: PLC0415 - numpy is imported when a command runs, so that help comes at once

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from raytide.errors import ConfigError

if TYPE_CHECKING:
    from raytide.core import Node, TenantTree
    from raytide.sim import Costs, SimOptions, SimResult
    from raytide.sim.api import Progress
    from raytide.sim.faults import FaultRates, RandomFaults
    from raytide.sim.traces import TraceJob

GENERATED = "generate:"
"""A trace that begins so is drawn, anew for every seed."""
_DRAWN = {"jobs": "500", "span": "12h", "tenants": "8"}
_WORTH = 10
"""Nodes go for this many times as long as the cluster needs for all work, then it stays whole: all jobs end."""


@dataclass(frozen=True)
class Scenario:
    """All but the policy and the seed.

    Attributes:
        trace: A file, or :data:`GENERATED` with settings.
        nodes: The cluster.
        placer: Its name.
        options: Costs and tenants.
        rates: How often nodes go; None for never.
    """

    trace: str
    nodes: Sequence[Node]
    placer: str
    options: SimOptions
    rates: FaultRates | None = None

    def check_seeds(self, seeds: Sequence[int]) -> None:
        """Refuse several seeds where they would change nothing.

        Raises:
            ConfigError: Neither trace nor faults are drawn, or there is no seed at all.
        """
        if not seeds or seeds[0] < 0:
            raise ConfigError("seeds", "there is none, or one is negative", "Give --seeds 1 or more, --seed 0 or more")
        if len(seeds) > 1 and self.rates is None and not self.trace.startswith(GENERATED):
            remedy = "Leave --seeds out, add --faults, or let the trace be drawn: generate:jobs=500,span=12h"
            raise ConfigError("seeds", "nothing here is random, so that all would be equal", remedy)

    def jobs(self, seed: int) -> Sequence[TraceJob]:
        """The jobs to be simulated.

        Raises:
            ConfigError: There is no such file, or a job has no duration.
            TraceError: It is malformed.
        """
        from raytide.sim.api import sim_jobs

        is_drawn = self.trace.startswith(GENERATED)
        jobs = _drawn(self.trace.removeprefix(GENERATED), seed) if is_drawn else read(Path(self.trace))
        sim_jobs(jobs)
        return jobs

    def run(self, jobs: Sequence[TraceJob], policy: str, seed: int, on_progress: Progress) -> SimResult:
        """Simulate it under one policy."""
        from raytide.sim import simulate

        options = replace(self.options, on_progress=on_progress)
        if self.rates is not None:
            most_gpus = sum(node.gpus for node in self.nodes)
            options = replace(options, faults=self._faults(self.rates, jobs, seed), most_gpus=most_gpus)
        return simulate(jobs, self.nodes, policy, self.placer, options)

    def _faults(self, rates: FaultRates, jobs: Sequence[TraceJob], seed: int) -> RandomFaults:
        from raytide.sim.faults import RandomFaults

        durations_s = [job.duration_s or 0.0 for job in jobs]
        work_s = sum(job.gpu_s or 0.0 for job in jobs) / sum(node.gpus for node in self.nodes)
        until_s = max(job.submit_s for job in jobs) + _WORTH * max(work_s, *durations_s)
        return RandomFaults(self.nodes, rates, seed, min(job.submit_s for job in jobs), until_s)


def parse_costs(restart_s: float, resize_s: float) -> Costs:
    """What changes cost.

    Raises:
        ConfigError: One is not a number of seconds from 0 up.
    """
    from raytide.sim import Costs

    for option, value in (("restart-cost", restart_s), ("resize-cost", resize_s)):
        if not 0 <= value < math.inf:
            raise ConfigError(option, f"{value:g} is no cost", "Give seconds, 0 or more")
    return Costs(start_s=restart_s, resume_s=restart_s, resize_s=resize_s)


def read_tenants(path: Path | None) -> TenantTree:
    """The tenants of a file; nobody in particular without one.

    Raises:
        ConfigError: It is not there, or malformed.
    """
    from raytide.core import TenantTree
    from raytide.submission.tenantfile import parse_tenant_file

    if path is None:
        return TenantTree()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError("tenants", f"{path}: {problem}", "Give the path of a YAML file") from error
    return TenantTree([listed.tenant for listed in parse_tenant_file(text, str(path))])


def read(trace: Path) -> Sequence[TraceJob]:
    """A trace.

    Raises:
        ConfigError: There is no such file.
        TraceError: It is malformed.
    """
    from raytide.sim.traces import read_trace

    try:
        return read_trace(trace)
    except OSError as error:
        raise ConfigError("trace", f"{trace}: {error.strerror or error}", "Give the path of a trace") from error


def _drawn(text: str, seed: int) -> Sequence[TraceJob]:
    from raytide.durations import parse_duration
    from raytide.sim.settings import parse_count, parse_settings
    from raytide.sim.traces import SyntheticTrace, generate

    given = {**_DRAWN, **parse_settings("trace", text, _DRAWN)}
    jobs, tenants = (parse_count(f"trace: {key}", given[key]) for key in ("jobs", "tenants"))
    span_s = parse_duration("trace: span", given["span"])
    return generate(SyntheticTrace(jobs=jobs, span_s=span_s, tenants=tenants, seed=seed))
