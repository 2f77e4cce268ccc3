"""Submissions from sixteen clients at once: how long each waits until its job is on disk, and whether all are.

The second half of the run kills the scheduler with ``kill -9`` in the middle; the clients say again what was not
acknowledged. No job can start (there are no free slots), so that the queue is all there is.

Prints ``p99_ms`` and ``median_ms`` of the first half, ``lost`` and ``duplicated`` of both, ``out_of_order``: pairs of
one tenant and priority of which the second was handed in after the first was acknowledged, and is before it in the
store; and ``away_s``: the longest call across the kill.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from dataclasses import dataclass

from _platform import kill_scheduler, platform, ray_cluster
from _support import emit, median, say

from raytide.actors.platform import Platform
from raytide.actors.scheduler.work import RIGID, Terms, sealed
from raytide.core import JobSpec, Role
from raytide.state import StateStore

CLIENTS, SUBMISSIONS, TENANTS = 16, 500, 4


@dataclass(frozen=True)
class Call:
    """One submission, as its client saw it."""

    job: str
    group: tuple[str, int]
    sent_s: float
    acknowledged_s: float


class Client(threading.Thread):
    """Hands in jobs, one after the other."""

    def __init__(self, running: Platform, number: int, count: int, phase: str, seed: int) -> None:
        super().__init__(name=f"client-{number}")
        self._running, self._number, self._count, self._phase = running, number, count, phase
        self._random = random.Random(seed * 1000 + number)
        self.calls: list[Call] = []

    def run(self) -> None:
        for place in range(self._count):
            name = f"{self._phase}-{self._number}-{place}"
            tenant, priority = f"t{self._random.randrange(TENANTS)}", self._random.randrange(2)
            spec = JobSpec(name, tenant, 0.0, (Role("replica", 2, 2),), 2, priority)
            sent_s = time.perf_counter()
            self._running.submit(spec, sealed(RIGID, Terms(2, 2), "{}"), key=name)
            self.calls.append(Call(name, (tenant, priority), sent_s, time.perf_counter()))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the jobs' tenants and priorities")
    seed = parser.parse_args().seed
    with tempfile.TemporaryDirectory() as folder, ray_cluster(1, 1):
        url = f"sqlite:///{folder}/platform.db"
        with platform(store=url, policy="fifo", most_slots=8) as running:
            calm = phase(running, "calm", seed)
            killed = phase(running, "killed", seed, kill=True)
        store = StateStore(url)
        position = {row.spec.job: place for place, (row, _) in enumerate(store.load().jobs)}
        names = [row.spec.job for row, _ in store.load().jobs]
    calls = [*calm, *killed]
    waits_ms = sorted(1000.0 * (call.acknowledged_s - call.sent_s) for call in calm)
    emit(
        {
            "submissions": len(calls),
            "clients": CLIENTS,
            "lost": sum(1 for call in calls if call.job not in position),
            "duplicated": len(names) - len(set(names)) + len(set(names) - {call.job for call in calls}),
            "out_of_order": out_of_order(calls, position),
            "median_ms": median(waits_ms),
            "p99_ms": waits_ms[int(0.99 * len(waits_ms))],
            "away_s": max(call.acknowledged_s - call.sent_s for call in killed),
        }
    )


def phase(running: Platform, name: str, seed: int, *, kill: bool = False) -> list[Call]:
    """Half of the run."""
    counts = [SUBMISSIONS // CLIENTS + (number < SUBMISSIONS % CLIENTS) for number in range(CLIENTS)]
    clients = [Client(running, number, count, name, seed) for number, count in enumerate(counts)]
    for client in clients:
        client.start()
    if kill:
        while sum(len(client.calls) for client in clients) < SUBMISSIONS // 2:
            time.sleep(0.005)
        kill_scheduler(running)
        say("killed the scheduler")
    for client in clients:
        client.join()
    say(f"{name}: {sum(len(client.calls) for client in clients)} submissions")
    return [call for client in clients for call in client.calls]


def out_of_order(calls: list[Call], position: dict[str, int]) -> int:
    """Pairs of one tenant and priority that are in the store against the order in which they were handed in."""
    groups: dict[tuple[str, int], list[Call]] = {}
    for call in calls:
        groups.setdefault(call.group, []).append(call)
    return sum(
        1
        for group in groups.values()
        for first in group
        for second in group
        if first.acknowledged_s < second.sent_s and position.get(first.job, -1) > position.get(second.job, -1)
    )


if __name__ == "__main__":
    main()
