"""Elastic training against a run of fixed size: the same weights, the same losses, each sample once.

A float64 MLP is resized 10 times at random and loses 2 replicas to SIGKILL over at least 200 steps; its
weights are compared with those of one replica of fixed size. ``char_gpt`` does the same in float32.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import time
from typing import Any

import torch
from _support import emit, read_trace, samples_exact, say, scratch, wait_for
from torch import nn
from torch.utils.data import TensorDataset

from raytide.actors.client import RayJobHandle
from raytide.errors import RequestRefused
from raytide.train import (
    ElasticTrainer,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    batches,
    epochs,
    get_context,
    prepare,
)

SAMPLES, BATCH = 1000, 64


def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, 32, generator=generator, dtype=torch.float64)
    return TensorDataset(x, torch.sin(x.sum(dim=1, keepdim=True)))


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config["epochs"])
    model, optimizer, scheduler = prepare(model, optimizer, scheduler)
    for _ in epochs(config["epochs"]):
        for x, y in batches(data(), global_batch_size=BATCH, shuffle=True, seed=3):
            loss = ((model(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(config["sleep_s"])
        scheduler.step()
    if get_context().get_world_rank() == 0:
        torch.save(model.state_dict(), config["weights"])


def run(folder: str, config: dict[str, Any], work: Any, *, name: str, elastic_seed: int | None) -> list[float]:
    """Run once; returns the reported losses. With a seed, the run is resized and loses replicas at random."""
    first = 1 if elastic_seed is None else 2
    trainer = ElasticTrainer(
        work,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=(1, 4), start_workers=first),
        run_config=RunConfig(
            name=name,
            storage_path=folder,
            trace_path=f"{folder}/{name}",
            progress=False,
            failure_config=FailureConfig(max_failures=10),
        ),
    )
    job = trainer.start()
    assert isinstance(job, RayJobHandle)
    try:
        if elastic_seed is not None:
            disturb(job, random.Random(elastic_seed))
        result = job.result()
    finally:
        job.close()
    frame = result.metrics_dataframe
    return list(frame["loss"]) if "loss" in frame else []


def disturb(job: RayJobHandle, rng: random.Random, resizes: int = 10, kills: int = 2) -> None:
    """Resize and kill at random, one after the other; the job has to be long enough for all of them."""
    wait_for(lambda: job.view().step > 3, 180, "the first steps")
    actions = ["resize"] * resizes + ["kill"] * kills
    rng.shuffle(actions)
    for action in actions:
        wait_for(lambda: (view := job.view()).ended or view.phase == "running", 60, "a running job")
        view = job.view()
        assert not view.ended, f"the job ended before all disturbances: {view.phase} at step {view.step}"
        if action == "kill" and view.world_size > 1:
            victim = rng.choice([m for m in view.members if m.rank >= 0])
            say(f"step {view.step}: kill rank {victim.rank} of {view.world_size}")
            os.kill(victim.pid, signal.SIGKILL)
        else:
            resize(job, rng)
        time.sleep(rng.uniform(0.2, 1.0))


def resize(job: RayJobHandle, rng: random.Random) -> None:
    view = job.view()
    options = ["out"] * (view.world_size < 4) + ["in"] * (view.world_size > 1) + ["migrate"] * (view.world_size < 4)
    choice = rng.choice(options)
    say(f"step {view.step}: {choice} at {view.world_size}")
    try:
        if choice == "out":
            job.scale_out(rng.randint(1, 4 - view.world_size))
        elif choice == "in":
            job.scale_in(ranks=[rng.randrange(view.world_size)])
        else:
            job.migrate(rng.randrange(view.world_size))
    except RequestRefused as error:  # a replica lost meanwhile is replaced on the slot this one wanted
        say(f"  refused: {error}")


def weight_difference(one: str, other: str) -> float:
    """Largest relative difference of a tensor."""
    a, b = torch.load(one), torch.load(other)
    return max(((a[k] - b[k]).norm() / b[k].norm()).item() for k in b)


def main(seed: int) -> None:
    """Measure and print."""
    with scratch() as folder:
        epochs_count = 120
        slow = {"epochs": epochs_count, "sleep_s": 0.06, "weights": f"{folder}/elastic.pt"}
        fast = {"epochs": epochs_count, "sleep_s": 0.0, "weights": f"{folder}/fixed.pt"}
        run(folder, slow, loop, name="elastic", elastic_seed=seed)
        run(folder, fast, loop, name="fixed", elastic_seed=None)
        steps = read_trace(f"{folder}/elastic")
        difference = weight_difference(slow["weights"], fast["weights"])
        gpt = compare_gpt(folder, seed)
        emit(
            {
                "max_rel_diff": difference,
                "loss_rel_diff": gpt,
                "samples_exact": samples_exact(steps, SAMPLES) and len({s.step for s in steps}) == 16 * epochs_count,
                "steps": len({s.step for s in steps}),
                "generations": len({s.generation for s in steps}),
                "seed": seed,
            }
        )


def compare_gpt(folder: str, seed: int) -> float:
    """Largest relative difference of the loss curves of ``char_gpt``."""
    from raytide.jobs import char_gpt

    config = {**char_gpt.CONFIG, **SMALL_GPT}
    elastic = run(folder, config, char_gpt.loop, name="gpt-elastic", elastic_seed=seed)
    fixed = run(folder, config, char_gpt.loop, name="gpt-fixed", elastic_seed=None)
    return max(abs(a - b) / abs(b) for a, b in zip(elastic, fixed, strict=True))


# Dropout would draw other masks at another size; a part of the text keeps it short.
SMALL_GPT: dict[str, Any] = {"epochs": 12, "dropout": 0.0, "max_characters": 40_000}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args().seed)
