"""Proof of the job model: Pollux's published Tiresias and Optimus results, to the printed digit.

Rounds, placement and both policies are written out here in their simplest form; the job model is raytide's.
"""

from __future__ import annotations

import csv
import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from raytide.core import split_batch
from raytide.sim.pollux import (
    Application,
    JobProgress,
    Running,
    advance,
    iteration_time,
    load_applications,
)
from support.scheduling import TRACES

DATA = TRACES / "pollux"
NODES, GPUS_PER_NODE, ROUND_S = 16, 4, 60
GPUS = NODES * GPUS_PER_NODE
DEMOTION_GPU_S = 57_600

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="needs the public data of Pollux beside the checkout; see docs/traces.md"
)


@dataclass(eq=False)
class Job:
    number: int
    app: Application
    submitted_s: int
    replicas: int
    batch: int
    gpus: dict[int, int] = field(init=False)  # by node, in the order taken
    held: int = field(init=False)
    running: Running = field(init=False)
    state: JobProgress = field(default_factory=JobProgress)
    executed_s: int = 0

    def __post_init__(self) -> None:
        self.give({})

    def give(self, gpus: dict[int, int]) -> None:
        self.gpus, self.held = gpus, sum(gpus.values())
        self.running = Running(self.app, tuple(gpus.values()), self.batch)

    @property
    def completion_s(self) -> float:
        assert self.state.completed_s is not None
        return self.state.completed_s - self.submitted_s


Policy = Callable[[list[Job]], Mapping[Job, int]]
"""From active jobs in submission order to GPUs of each, in the order of placement."""


# --- rounds and placement -------------------------------------------------------------------------
def replay(jobs: list[Job], policy: Policy) -> None:
    now_s = 0
    while unfinished := [job for job in jobs if job.state.completed_s is None]:
        for job in unfinished:
            job.state = advance(job.state, job.running, now_s, ROUND_S, whole_seconds=True)
        now_s += ROUND_S
        place(policy([j for j in unfinished if j.submitted_s <= now_s and j.state.completed_s is None]))


def place(sizes: Mapping[Job, int]) -> None:
    free = [GPUS_PER_NODE] * NODES
    for job, size in sizes.items():
        if job.held == size:
            for node, gpus in job.gpus.items():
                free[node] -= gpus
    for job, size in sizes.items():
        if job.held != size:
            restart(job, take(free, size))


def take(free: list[int], size: int) -> dict[int, int]:
    taken: dict[int, int] = {}
    while size:
        node = free.index(max(free))
        taken[node] = min(free[node], size)
        free[node] -= taken[node]
        size -= taken[node]
    return taken


def restart(job: Job, gpus: dict[int, int]) -> None:
    if list(gpus.items()) != list(job.gpus.items()):
        job.give(gpus)
        job.state = job.state.delayed()


# --- policies -------------------------------------------------------------------------------------
def tiresias() -> Policy:
    demoted: list[Job] = []

    def decide(active: list[Job]) -> Mapping[Job, int]:
        for job in active:
            job.executed_s += ROUND_S if job.held else 0
            if job not in demoted and job.executed_s * job.replicas >= DEMOTION_GPU_S:
                demoted.append(job)
        queue = [job for job in active if job not in demoted] + [job for job in demoted if job in active]
        return those_that_fit(queue)

    return decide


def those_that_fit(queue: list[Job]) -> Mapping[Job, int]:
    sizes, free = {}, GPUS
    for job in queue:
        sizes[job] = job.replicas if job.replicas <= free else 0
        free -= sizes[job]
    return sizes


def optimus(active: list[Job]) -> Mapping[Job, int]:
    sizes = {job: int(place_ in range(GPUS)) for place_, job in enumerate(active)}
    gains = [(-gain_of_one_more(job, 1), job.number, job) for job in active if sizes[job]]
    heapq.heapify(gains)
    for _ in range(GPUS - len(gains)):
        if not gains or gains[0][0] >= 0:
            break
        job = gains[0][2]
        sizes[job] += 1
        heapq.heapreplace(gains, (-gain_of_one_more(job, sizes[job]), job.number, job))
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def gain_of_one_more(job: Job, size: int) -> float:
    most = 1 if job.app.name == "ncf" else job.batch // job.app.limits.min_local
    if size >= most:
        return 0.0
    saved_s = packed_iteration_time(job.app, job.batch, size) - packed_iteration_time(job.app, job.batch, size + 1)
    return saved_s * job.app.remaining_iterations(job.batch, job.state.epoch)


@cache
def packed_iteration_time(app: Application, batch: int, size: int) -> float:
    full, rest = divmod(size, GPUS_PER_NODE)
    split = split_batch(app.limits, batch, size, accumulate_alone=True)
    return iteration_time(app, (*[GPUS_PER_NODE] * full, rest), split)


POLICIES: dict[str, Callable[[], Policy]] = {"tiresias": tiresias, "optimus": lambda: optimus}


# --- results --------------------------------------------------------------------------------------
@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Triangulating solves thousands of 3 x 3 systems: BLAS threads that share busy cores make it take seconds."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def applications() -> dict[str, Application]:
    return load_applications(DATA / "traces")


def load_jobs(workload: str, applications: Mapping[str, Application]) -> list[Job]:
    with (DATA / workload).open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["time"]))
    return [
        Job(i, applications[r["application"]], int(r["time"]), int(r["num_replicas"]), int(r["batch_size"]))
        for i, r in enumerate(rows)
    ]


WORKLOAD_6, REALISTIC_6 = "workloads/workload-6.csv", "workloads-realistic/workload-6.csv"


@pytest.mark.parametrize(
    ("workload", "policy", "average_s", "p99_and_makespan_s"),
    [
        ("workloads/workload-1.csv", "tiresias", "2473.7", None),
        ("workloads/workload-2.csv", "tiresias", "5145.0", None),
        ("workloads/workload-3.csv", "tiresias", "3876.3", None),
        ("workloads/workload-4.csv", "tiresias", "3280.3", None),
        ("workloads/workload-5.csv", "tiresias", "3501.0", None),
        (WORKLOAD_6, "tiresias", "3469.69375", (52573, 78609)),
        (REALISTIC_6, "tiresias", "7731.09", (82501, 102101)),
        ("workloads/workload-1.csv", "optimus", "4087.1", None),
        ("workloads/workload-2.csv", "optimus", "6913.9", None),
        ("workloads/workload-3.csv", "optimus", "3944.0", None),
        ("workloads/workload-4.csv", "optimus", "5967.8", None),
        ("workloads/workload-5.csv", "optimus", "5656.2", None),
        (WORKLOAD_6, "optimus", "5301.875", (48185, 66299)),
        (REALISTIC_6, "optimus", "6685.28", (52011, 72274)),
    ],
)
def test_published_results(
    applications: dict[str, Application],
    workload: str,
    policy: str,
    average_s: str,
    p99_and_makespan_s: tuple[int, int] | None,
) -> None:
    jobs = load_jobs(workload, applications)
    replay(jobs, POLICIES[policy]())
    times_s = [job.completion_s for job in jobs]
    last_digit = 10.0 ** -len(average_s.partition(".")[2])
    assert np.mean(times_s) == pytest.approx(float(average_s), rel=0, abs=last_digit / 2 + 1e-9)
    if p99_and_makespan_s:
        p99_s = np.percentile(times_s, 99, method="higher")
        assert (p99_s, max(job.submitted_s + job.completion_s for job in jobs)) == p99_and_makespan_s
