"""Step time of raytide against plain DDP: same processes, same model, steps taken in turn.

Inside a job of two replicas every round takes one raytide step, one DDP step, and one step of a second DDP
model; ``aa_ratio`` compares the two DDP models and shows the noise. From job to job the ratios differ by a tenth, so
several jobs are run, and the medians over them are what counts.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist
from _models import mlp, tensors
from _support import emit, median, say, scratch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from raytide.train import ElasticTrainer, RunConfig, ScalingConfig, batches, epochs, get_context, prepare, report

BATCH = 64
WARMUP = 10


def ddp_group(rank: int, world_size: int, store_file: str) -> dist.ProcessGroup:
    """A process group beside raytide's, as ``init_process_group`` would make it."""
    dist.init_process_group("gloo", init_method=f"file://{store_file}", rank=rank, world_size=world_size)
    group = dist.group.WORLD
    assert group is not None
    return group


class Plain:
    """One DDP model with its optimizer and batches."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        torch.manual_seed(0)
        self.model = DistributedDataParallel(mlp(), process_group=group)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        started_s = time.perf_counter()
        train(self.model, self.optimizer, x, y)
        return time.perf_counter() - started_s


def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model, optimizer = prepare(model, optimizer)
    data = tensors(BATCH * config["rounds"])
    times: dict[str, list[float]] = {"raytide": [], "ddp": [], "ddp2": []}
    for _ in epochs(1):
        steps = iter(batches(data, global_batch_size=BATCH))
        x, y = next(steps)
        context = get_context()
        group = ddp_group(context.get_world_rank(), context.get_world_size(), config["store_file"])
        first, second = Plain(group), Plain(group)
        train(model, optimizer, x, y)
        while True:
            # A raytide step is everything from asking for its batch to its end.
            started_s = time.perf_counter()
            batch = next(steps, None)
            if batch is None:
                break
            train(model, optimizer, *batch)
            times["raytide"].append(time.perf_counter() - started_s)
            times["ddp"].append(first.step(*batch))
            times["ddp2"].append(second.step(*batch))
        dist.destroy_process_group()
    kept = {name: values[WARMUP:] for name, values in times.items()}
    report(
        {
            "ddp_step_ms": 1000 * median(kept["ddp"]),
            "raytide_step_ms": 1000 * median(kept["raytide"]),
            "ratio": median([a / b for a, b in zip(kept["raytide"], kept["ddp"], strict=True)]),
            "aa_ratio": median([a / b for a, b in zip(kept["ddp2"], kept["ddp"], strict=True)]),
        }
    )


def one_job(rounds: int) -> dict[str, float]:
    """Figures of one job; whatever luck its processes have with memory and cores holds for all of its steps."""
    with scratch() as folder:
        trainer = ElasticTrainer(
            loop,
            train_loop_config={"rounds": rounds, "store_file": f"{folder}/ddp"},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=folder, progress=False),
        )
        return dict(trainer.fit().metrics)


def main(jobs: int = 7, rounds: int = 50) -> None:
    """Measure and print."""
    found = []
    for number in range(jobs):
        found.append(one_job(rounds))
        say(f"job {number + 1} of {jobs}: {found[-1]}")
    result: dict[str, Any] = {name: median([job[name] for job in found]) for name in found[0]}
    result["ratios"] = sorted(round(job["ratio"], 4) for job in found)
    result["aa_ratios"] = sorted(round(job["aa_ratio"], 4) for job in found)
    emit(result)


if __name__ == "__main__":
    main()
