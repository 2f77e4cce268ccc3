"""Ray Train 2.60's elastic mode on the same model: its pause when it grows, and when a worker is killed.

Runs in a process of its own (``python _ray_train_peer.py``) and prints one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import ray
import torch
from _models import mlp, tensors
from _support import emit, say, wait_for
from ray.cluster_utils import Cluster
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig, get_checkpoint, get_context
from ray.train import report as train_report
from ray.train.torch import TorchTrainer

BATCH = 64
CHECKPOINT_EVERY = 10


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    context = get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    model = ray.train.torch.prepare_model(mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    step = 0
    checkpoint = get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder) / "state.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    x, y = tensors(BATCH // world_size, seed=rank).tensors
    log = (Path(config["folder"]) / f"{os.getpid()}.log").open("a", buffering=1)
    while step < config["steps"] and not (Path(config["folder"]) / "stop").exists():
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        log.write(f"{time.time()} {step} {rank} {world_size} {os.getpid()}\n")
        if step % CHECKPOINT_EVERY == 0:
            save(model, optimizer, step, rank)


def save(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, rank: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, Path(folder) / "state.pt")
        checkpoint = Checkpoint.from_directory(folder) if rank == 0 else None
        train_report({"step": step}, checkpoint=checkpoint)


def read_log(folder: str) -> list[tuple[float, int, int, int, int]]:
    rows = []
    for path in Path(folder).glob("*.log"):
        for line in path.read_text().splitlines():
            t, step, rank, world, pid = line.split()
            rows.append((float(t), int(step), int(rank), int(world), int(pid)))
    return sorted(rows)


def world_size_now(folder: str) -> int:
    rows = read_log(folder)
    return rows[-1][3] if rows else 0


def measure() -> dict[str, float]:
    """Grow from 2 to 4 workers, then kill one."""
    os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    ray.init(address=cluster.address, log_to_driver=bool(os.environ.get("RAYTIDE_BENCH_DEBUG")), logging_level="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        trainer = TorchTrainer(
            loop,
            train_loop_config={"folder": folder, "steps": 100_000},
            scaling_config=ScalingConfig(
                num_workers=(2, 4), resources_per_worker={"CPU": 1}, elastic_resize_monitor_interval_s=1.0
            ),
            run_config=RunConfig(
                storage_path=f"{folder}/store",
                failure_config=FailureConfig(max_failures=5),
                checkpoint_config=CheckpointConfig(num_to_keep=2),
            ),
        )
        fitting = threading.Thread(target=trainer.fit, daemon=True)
        fitting.start()
        wait_for(lambda: world_size_now(folder) == 2 and len(read_log(folder)) > 40, 240, "two workers")
        say("Ray Train runs on two workers; adding a node")
        cluster.add_node(num_cpus=2)
        wait_for(lambda: world_size_now(folder) == 4, 300, "four workers")
        wait_for(lambda: len([r for r in read_log(folder) if r[3] == 4]) > 100, 120, "steps of four workers")
        rows = read_log(folder)
        first_new = next(r for r in rows if r[3] == 4)
        last_old = [r for r in rows if r[3] == 2 and r[0] < first_new[0]][-1]
        result = {
            "ray_train_pause_s": first_new[0] - last_old[0],
            "ray_train_repeated_steps": float(max(0, last_old[1] - first_new[1] + 1)),
        }
        say(f"Ray Train resized: {result}")
        victim = next(r for r in reversed(rows) if r[2] == 1)
        killed_s = time.time()
        os.kill(victim[4], signal.SIGKILL)
        wait_for(lambda: any(r[0] > killed_s + 0.5 for r in read_log(folder)), 300, "a step after the kill")
        after = next(r for r in read_log(folder) if r[0] > killed_s + 0.5)
        result["ray_train_kill_to_step_s"] = after[0] - killed_s
        (Path(folder) / "stop").touch()
        fitting.join(60)
    ray.shutdown()
    cluster.shutdown()
    return result


def run_in_process() -> dict[str, float]:
    """Measure in a fresh process, because Ray connects a process to one cluster only."""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=900, check=False, cwd=Path(__file__).parent
    )
    if done.returncode:
        raise RuntimeError(f"Ray Train's run failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


if __name__ == "__main__":
    emit(measure())
