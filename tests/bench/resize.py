"""What a resize costs a running job, against Ray Train's elastic mode.

A job of 2 replicas with two loader processes each grows to 4 and shrinks back, several times. All times
are read from the trace of applied steps: a pause is the gap between two applied steps beyond a usual step.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from _models import Slices, mlp
from _support import Step, emit, first_times, median, read_trace, say, scratch, wait_for

from raytide.actors.client import RayJobHandle
from raytide.actors.launcher import RayLauncher
from raytide.errors import RequestRefused
from raytide.train import ElasticTrainer, RunConfig, ScalingConfig, batches, epochs, prepare

BATCH = 32
STARTUP_S = 30.0


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model, optimizer = prepare(model, optimizer)
    data = Slices(2048)
    for _ in epochs(100_000):
        for x, y in batches(data, global_batch_size=BATCH, shuffle=True, num_workers=2):
            loss = ((model(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@dataclass(frozen=True)
class Cost:
    """One growth, from the trace."""

    pause_s: float
    transfer_s: float
    step_s: float
    bytes_moved: int
    repeated_steps: int
    lost_steps: float


def start(folder: str, *, delay_s: float) -> RayJobHandle:
    trainer = ElasticTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=(2, 4)),
        run_config=RunConfig(storage_path=folder, trace_path=f"{folder}/trace", progress=False),
    )
    return RayLauncher(start_delay_s=delay_s).launch(trainer.request())


def grow(job: RayJobHandle, folder: str, settle_s: float) -> Cost:
    """Grow from 2 to 4 once, with undisturbed time before and after."""
    time.sleep(settle_s)
    requested_s = time.time()
    answer = job.scale_out(2)
    time.sleep(settle_s)
    steps = read_trace(f"{folder}/trace")
    switched = min(s.step for s in steps if s.generation == answer.generation)
    times = first_times(steps)
    ordered = sorted(times)
    before = [times[b] - times[a] for a, b in pairwise(ordered) if times[b] < requested_s]
    usual_s = median(before[-50:])
    around = range(switched - 1, switched + 2)
    pause_s = max(times[k] - times[k - 1] for k in around if k in times and k - 1 in times) - usual_s
    return Cost(
        pause_s,
        answer.transfer_s,
        usual_s,
        answer.bytes_moved,
        repeated(steps),
        lost_steps(times, requested_s, times[switched], usual_s),
    )


def repeated(steps: list[Step]) -> int:
    """Steps that one replica applied twice."""
    seen = [(s.replica, s.step) for s in steps]
    return len(seen) - len(set(seen))


def lost_steps(times: dict[int, float], requested_s: float, switched_s: float, usual_s: float) -> float:
    """Time from the request to the switch beyond that of undisturbed steps, in steps."""
    between = [k for k in sorted(times) if requested_s <= times[k] <= switched_s]
    return (switched_s - requested_s) / usual_s - len(between)


def measure(folder: str, rounds: int, *, delay_s: float, settle_s: float) -> list[Cost]:
    """Grow ``rounds`` times in one job."""
    job = start(folder, delay_s=delay_s)
    try:
        wait_for(lambda: job.view().step > 5, 180, "the first steps")
        costs = []
        for i in range(rounds):
            costs.append(grow(job, folder, settle_s))
            say(f"growth {i + 1}: {costs[-1]}")
            if i + 1 < rounds:
                job.scale_in(2)
        job.stop()
        return costs
    except RequestRefused:
        for event in job.view().events:
            say(f"{event.kind}: {event.text}")
        raise
    finally:
        job.close()


def main(rounds: int, *, peer: bool) -> None:
    """Measure and print."""
    with scratch() as folder:
        costs = measure(folder, rounds, delay_s=0.0, settle_s=6.0)
    with scratch() as folder:
        slow = measure(folder, 1, delay_s=STARTUP_S, settle_s=6.0)
    result: dict[str, Any] = {
        "pause_s": median([c.pause_s for c in costs]),
        "transfer_s": median([c.transfer_s for c in costs]),
        "step_s": median([c.step_s for c in costs]),
        "bytes": costs[0].bytes_moved,
        "repeated_steps": max(c.repeated_steps for c in costs),
        "lost_step_equivalents": median([c.lost_steps for c in costs]),
        "pause_with_30s_startup_s": slow[0].pause_s,
    }
    if peer:
        from _ray_train_peer import run_in_process

        result |= run_in_process()
        result["ratio"] = result["ray_train_pause_s"] / max(result["pause_s"], 1e-3)
    emit(result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="leave Ray Train out")
    arguments = parser.parse_args()
    main(arguments.rounds, peer=not arguments.no_peer)
