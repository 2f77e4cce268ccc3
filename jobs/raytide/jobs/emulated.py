"""An EMULATED job: real processes, gradients, all-reduces and data; computation is a wait.

Many replicas on a small machine compete for its cores, so real computation cannot show how a job
scales. Here each replica waits for as long as a throughput table says that a GPU would compute for
its share of the batch: wall time then scales as the table does, while the exchange of gradients and
the loading of samples cost what they really cost. What it trains (one number) is of no use.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from raytide.jobs.throughput import RESNET50_ON_T4, make_table
from raytide.train import batches, epochs, get_context, prepare, report

NOTE = "EMULATED: the computation of each step is a wait taken from a throughput table."

CONFIG: dict[str, Any] = {
    "epochs": 3,
    "samples": 8_000,  # of one epoch
    "global_batch_size": 80,
    "sample_bytes": 12_288,  # loaded for each sample: 3 x 64 x 64 bytes
    "parameters": 1_000_000,  # float32: 4 MB of gradients exchanged in each step
    "layers": 8,  # tensors that the parameters are divided into
    "rates": RESNET50_ON_T4,  # samples/s
    "rates_by": "local_batch",  # what the keys of rates are: local_batch or replicas
    "time_scale": 1.0,  # factor on every wait: 0.1 runs ten times as fast
    "num_workers": 0,  # DataLoader processes of each replica
    "max_local_batch": None,  # samples that fit into one replica at once; None: all
    "seed": 0,
}
FORWARD_SHARE = 1 / 3  # of a step's computation; the backward pass takes about twice as long
TARGET_MEAN = 3.0
_WINDOWS = 4096  # different samples before they repeat


class NoiseBytes(Dataset[tuple[Tensor, Tensor]]):
    """Samples of random bytes, copied anew for each use, with a number to predict.

    Item i is a pure function of (seed, i). The bytes are windows into one buffer, because making new
    random numbers would cost more than loading data does.
    """

    def __init__(self, samples: int, sample_bytes: int, seed: int) -> None:
        self.samples = samples
        self.sample_bytes = sample_bytes
        random = torch.Generator().manual_seed(seed)
        self.noise = torch.randint(256, (sample_bytes + _WINDOWS,), dtype=torch.uint8, generator=random)
        self.targets = TARGET_MEAN + 0.1 * torch.randn(_WINDOWS, generator=random)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not 0 <= index < self.samples:
            raise IndexError(index)
        window = index % _WINDOWS
        return self.noise[window : window + self.sample_bytes].clone(), self.targets[window]


class _WaitInBackward(torch.autograd.Function):
    """The identity, whose backward pass takes a given time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return grads[0], None


class WaitingModel(nn.Module):
    """Predicts one number as the mean of its parameters, and takes its time.

    A layer's wait comes before its gradient, so that the gradients become ready one after the other
    and their exchange overlaps with the rest of the backward pass, as in a real model.

    Args:
        parameters: How many, in all layers together.
        layers: Tensors they are divided into.
        compute_s: Seconds that a step computes, by local batch size.
    """

    def __init__(self, parameters: int, layers: int, compute_s: Callable[[int], float]) -> None:
        super().__init__()
        size = max(1, parameters // layers)
        self.layers = nn.ParameterList(nn.Parameter(torch.zeros(size)) for _ in range(layers))
        self.compute_s = compute_s

    def forward(self, data: Tensor) -> Tensor:
        """Predictions [N] for samples [N, sample_bytes]."""
        seconds = self.compute_s(len(data))
        time.sleep(seconds * FORWARD_SHARE)
        pause = seconds * (1 - FORWARD_SHARE) / len(self.layers)
        # Touch the data, so that loading it cannot be skipped; too little to change the prediction.
        prediction = data.sum(dim=1, dtype=torch.float32) * 1e-12
        for layer in self.layers:
            prediction = _wait(prediction + layer.mean(), pause)
        return prediction


def _wait(x: Tensor, seconds: float) -> Tensor:
    out: Tensor = _WaitInBackward.apply(x, seconds)  # type: ignore[no-untyped-call] # torch does not type it
    return out


def learning_rate(parameters: int, layers: int) -> float:
    """The SGD rate that moves the prediction 10 % of the way to its target in a step.

    The prediction is a sum of means: the gradient of one element is 2 * error / size, and a step
    moves the prediction by rate * 2 * error * layers / size.
    """
    return 0.05 * (parameters // layers) / layers


def loop(config: dict[str, Any]) -> None:
    """Train, and report the loss of each epoch."""
    context = get_context()
    if context.get_world_rank() == 0:
        print(NOTE, flush=True)
    table = make_table(config["rates_by"], config["rates"])
    scale = float(config["time_scale"])

    def compute_s(local_batch: int) -> float:
        return scale * table.compute_s(local_batch, context.get_world_size())

    dataset = NoiseBytes(config["samples"], config["sample_bytes"], config["seed"])
    waiting = WaitingModel(config["parameters"], config["layers"], compute_s)
    sgd = torch.optim.SGD(waiting.parameters(), lr=learning_rate(config["parameters"], config["layers"]))
    model, optimizer = prepare(waiting, sgd)

    for _epoch in epochs(config["epochs"]):
        loss_sum, seen = 0.0, 0
        for data, target in batches(
            dataset,
            global_batch_size=config["global_batch_size"],
            shuffle=True,
            seed=config["seed"],
            num_workers=config["num_workers"],
            max_local_batch=config["max_local_batch"],
        ):
            loss = nn.functional.mse_loss(model(data), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(target)
            seen += len(target)
        total = context.all_reduce([loss_sum, seen])
        report({"loss": total[0] / max(1.0, total[1]), "emulated": 1.0}, checkpoint=True)


if __name__ == "__main__":
    from raytide.jobs.running import main

    main("raytide.jobs.emulated")
