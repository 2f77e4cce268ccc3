"""Twelve jobs of three tenants on a real platform, first under FIFO with the sizes asked for, then under tide.

Four logical nodes of two slots; ten EMULATED jobs with tables like those of ResNet, BERT and VGG (so that scaling is
real in wall time on two cores), four of them rigid, and two that really train on digits; Poisson arrivals. Both runs
get the same jobs at the same times, with warm standbys.

Prints ``tide_vs_fifo_mean_jct`` and ``makespan_ratio`` (tide over FIFO), the means themselves, ``samples_exact``: every
epoch of every job of both runs used each sample exactly once; and ``sim_error``: the mean over the jobs of the tide
run of |predicted - measured| / measured completion time, where the simulator drives the same policy with the
throughputs and the costs of changes that were measured in that very run; ``sim_error_fifo`` is that of the other run.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _live_sim import predicted_jct_s
from _platform import platform, ray_cluster, submit, wait_warm
from _support import emit, read_trace, samples_exact, say, scratch

from raytide.actors.platform import Platform

NODES, SLOTS, JOBS, DIGITS = 4, 2, 12, 2
MEAN_GAP_S = 8.0
SECONDS = (50.0, 110.0)
"""How long a job takes at the size it asks for."""

TABLES: dict[str, dict[int, float]] = {
    "resnet": {1: 100.0, 2: 192.0, 4: 370.0, 8: 700.0},
    "bert": {1: 100.0, 2: 178.0, 4: 310.0, 8: 500.0},
    "vgg": {1: 100.0, 2: 150.0, 4: 210.0, 8: 250.0},
}
"""Samples/s by replicas, in the shape of what such models reach: nearly linear, less, and soon bound by the network."""

STEP = {"global_batch_size": 40, "parameters": 50_000, "layers": 2, "sample_bytes": 1_024, "rates_by": "replicas"}
DIGITS_SAMPLES = 1437


@dataclass(frozen=True)
class LiveJob:
    """A job of the stream.

    Attributes:
        length: Samples of an epoch.
    """

    name: str
    tenant: str
    arrival_s: float
    module: str
    least: int
    most: int
    start: int
    epochs: int
    length: int
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """In all epochs."""
        return self.epochs * self.length


@dataclass(frozen=True)
class Ran:
    """A job that ended: seconds since the run began, and how fast its steps were by replicas."""

    job: LiveJob
    submitted_s: float
    started_s: float
    first_step_s: float
    ended_s: float
    rates: dict[int, float]
    exact: bool

    @property
    def jct_s(self) -> float:
        return self.ended_s - self.submitted_s


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the jobs and their arrivals")
    seed = parser.parse_args().seed
    jobs = stream(random.Random(seed))
    runs: dict[str, list[Ran]] = {}
    with ray_cluster(NODES, SLOTS), scratch() as folder:
        for policy in ("fifo", "tide"):
            with platform(policy=policy, standbys=SLOTS) as running:
                wait_warm(running, NODES * SLOTS)
                runs[policy] = run(running, jobs, Path(folder) / policy)
            report(policy, runs[policy])
    fifo, tide = runs["fifo"], runs["tide"]
    emit(
        {
            "tide_vs_fifo_mean_jct": mean_jct_s(tide) / mean_jct_s(fifo),
            "makespan_ratio": max(ran.ended_s for ran in tide) / max(ran.ended_s for ran in fifo),
            "fifo_mean_jct_s": mean_jct_s(fifo),
            "tide_mean_jct_s": mean_jct_s(tide),
            "samples_exact": all(ran.exact for ran in (*fifo, *tide)),
            "sim_error": error("tide", tide),
            "sim_error_fifo": error("fifo", fifo),
        }
    )


def stream(rng: random.Random) -> list[LiveJob]:
    """The jobs, by arrival."""
    jobs, now_s = [], 0.0
    digits = set(rng.sample(range(JOBS), DIGITS))
    rigid = set(rng.sample([place for place in range(JOBS) if place not in digits], 4))
    for place in range(JOBS):
        tenant, start = f"tenant-{place % 3}", rng.choice([1, 1, 2, 2, 4])
        seconds, table = rng.uniform(*SECONDS), rng.choice(list(TABLES))
        if place in digits:
            config = {"epochs": 40}
            job = LiveJob(f"digits-{place}", tenant, now_s, "raytide.jobs.digits", 1, 2, 1, 40, DIGITS_SAMPLES, config)
        else:
            length = int(TABLES[table][start] * seconds / 2)
            config = {**STEP, "epochs": 2, "samples": length, "rates": TABLES[table]}
            least, most = (start, start) if place in rigid else (1, 8)
            job = LiveJob(
                f"{table}-{place}", tenant, now_s, "raytide.jobs.emulated", least, most, start, 2, length, config
            )
        jobs.append(job)
        now_s += rng.expovariate(1.0 / MEAN_GAP_S)
    return jobs


def run(running: Platform, jobs: list[LiveJob], folder: Path) -> list[Ran]:
    """Submit every job at its time, and wait for all of them."""
    began_s = time.time()
    for job in jobs:
        time.sleep(max(0.0, began_s + job.arrival_s - time.time()))
        workers = (job.least, job.most)
        options = {"workers": workers, "start": job.start, "tenant": job.tenant, "config": job.config}
        submit(running, job.name, job.module, folder, work=float(job.samples), **options)
    return [_ran(running, job, folder, began_s) for job in jobs]


def _ran(running: Platform, job: LiveJob, folder: Path, began_s: float) -> Ran:
    info = running.wait(job.name, 1800.0)
    if info.state != "succeeded" or info.first_start_s is None or info.ended_s is None:
        raise SystemExit(f"{job.name} is {info.state}: {info.reason}\n" + "\n".join(info.story))
    steps = read_trace(str(folder / job.name))
    say(f"{job.name}: {info.ended_s - info.submitted_s:.0f} s, {info.resizes} resizes")
    return Ran(
        job,
        info.submitted_s - began_s,
        info.first_start_s - began_s,
        min(step.time_s for step in steps) - began_s,
        info.ended_s - began_s,
        measured_rates(steps),
        samples_exact(steps, job.length),
    )


def measured_rates(steps: list[Any]) -> dict[int, float]:
    """Samples/s by replicas: the middle one of the times between steps of one membership."""
    firsts: dict[int, Any] = {}
    for step in steps:
        firsts.setdefault(step.step, step)
    gaps: dict[int, list[float]] = {}
    ordered = [firsts[number] for number in sorted(firsts)]
    for before, after in itertools.pairwise(ordered):
        if before.generation == after.generation and after.cursor_after > after.cursor:
            seconds = max(after.time_s - before.time_s, 1e-6)
            gaps.setdefault(after.world_size, []).append((after.cursor_after - after.cursor) / seconds)
    return {size: sorted(rates)[len(rates) // 2] for size, rates in gaps.items() if len(rates) >= 3}


def mean_jct_s(runs: list[Ran]) -> float:
    """Over the jobs."""
    return sum(ran.jct_s for ran in runs) / len(runs)


def error(policy: str, runs: list[Ran]) -> float:
    """Mean of |predicted - measured| / measured completion time."""
    predicted = predicted_jct_s(policy, runs, NODES, SLOTS)
    for ran in runs:
        say(f"{policy} {ran.job.name}: measured {ran.jct_s:.0f} s, predicted {predicted[ran.job.name]:.0f} s")
    return sum(abs(predicted[ran.job.name] - ran.jct_s) / ran.jct_s for ran in runs) / len(runs)


def report(policy: str, runs: list[Ran]) -> None:
    """For whoever watches."""
    say(f"{policy}: mean JCT {mean_jct_s(runs):.0f} s, makespan {max(ran.ended_s for ran in runs):.0f} s")


if __name__ == "__main__":
    main()
