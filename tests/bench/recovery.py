"""How fast a job goes on after a loss: a killed replica (rank 0 included), a frozen one, a killed master.

Times are read from the trace of applied steps of a job of 3 replicas with two loader processes each.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from itertools import pairwise
from typing import Any

import ray
from _support import emit, first_times, median, read_trace, samples_exact, say, scratch, wait_for
from resize import BATCH, loop

from raytide.actors.client import RayJobHandle
from raytide.train import ElasticTrainer, FailureConfig, RunConfig, ScalingConfig

LENGTH = 2048


def start(folder: str) -> RayJobHandle:
    trainer = ElasticTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=(1, 4), start_workers=3),
        run_config=RunConfig(
            storage_path=folder,
            trace_path=f"{folder}/trace",
            progress=False,
            failure_config=FailureConfig(max_failures=100, replace_lost=True),
        ),
    )
    handle = trainer.start()
    assert isinstance(handle, RayJobHandle)
    return handle


def pid_of(job: RayJobHandle, rank: int) -> int:
    """Process of a rank, once all three replicas train."""
    wait_for(lambda: job.view().world_size == 3 and job.view().phase == "running", 120, "three replicas")
    time.sleep(3.0)
    return next(m.pid for m in job.view().members if m.rank == rank)


def step_after(folder: str, hit_s: float) -> float:
    """Seconds from ``hit_s`` to the next applied step of a later generation."""
    before = [s for s in read_trace(f"{folder}/trace") if s.time_s <= hit_s]
    generation = before[-1].generation
    found: list[float] = []

    def happened() -> bool:
        found[:] = [s.time_s for s in read_trace(f"{folder}/trace") if s.generation > generation]
        return bool(found)

    wait_for(happened, 60, "a step after the loss")
    return min(found) - hit_s


def kill(job: RayJobHandle, folder: str, rank: int) -> float:
    """Kill a rank with SIGKILL; seconds to the next applied step."""
    os.kill(pid_of(job, rank), signal.SIGKILL)
    took_s = step_after(folder, time.time())
    say(f"rank {rank} killed: next step after {took_s:.3f} s")
    return took_s


def freeze(job: RayJobHandle, folder: str) -> float:
    """Stop a replica; seconds to the next applied step. It wakes up later and must change nothing."""
    pid = pid_of(job, 1)
    os.kill(pid, signal.SIGSTOP)
    took_s = step_after(folder, time.time())
    say(f"frozen: next step after {took_s:.3f} s")
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        say("the frozen process was ended meanwhile")
    return took_s


def kill_master(job: RayJobHandle, folder: str) -> float:
    """Kill the master; the longest gap between applied steps in the next seconds, beyond a usual step."""
    pid_of(job, 0)
    steps = first_times(read_trace(f"{folder}/trace"))
    usual_s = median([steps[k] - steps[k - 1] for k in sorted(steps)[-40:] if k - 1 in steps])
    pid = ray.get(job.master.pid.remote())
    hit_s = time.time()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: job.view().phase == "running", 60, "the restarted master")
    time.sleep(3.0)
    times = sorted(t for t in first_times(read_trace(f"{folder}/trace")).values() if t > hit_s - 1.0)
    pause_s = max(b - a for a, b in pairwise(times)) - usual_s
    say(f"master killed: longest extra gap {pause_s:.3f} s")
    return pause_s


def main(*, peer: bool) -> None:
    """Measure and print."""
    with scratch() as folder:
        job = start(folder)
        try:
            wait_for(lambda: job.view().step > 5, 180, "the first steps")
            kills = [kill(job, folder, rank) for rank in (1, 0, 2)]
            frozen_s = freeze(job, folder)
            master_s = kill_master(job, folder)
            time.sleep(1.0)
            job.stop()
        finally:
            job.close()
        steps = read_trace(f"{folder}/trace")
    applied = sorted({s.step for s in steps})
    result: dict[str, Any] = {
        "kill_to_step_s": max(kills),
        "lost_steps": applied[-1] + 1 - len(applied),
        "samples_exact": samples_exact(steps, LENGTH),
        "frozen_to_step_s": frozen_s,
        "master_kill_pause_s": max(0.0, master_s),
        "global_batch_size": BATCH,
    }
    if peer:
        from _ray_train_peer import run_in_process

        result["ray_train_kill_to_step_s"] = run_in_process()["ray_train_kill_to_step_s"]
    emit(result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peer", action="store_true", help="leave Ray Train out")
    main(peer=not parser.parse_args().no_peer)
