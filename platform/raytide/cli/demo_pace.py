"""How long the demo's job must train on this machine for every act to fit into it."""

from __future__ import annotations

import time

import torch
from torch.nn import functional

from raytide.jobs import digits

TRAINING_S = 55.0
"""Of one replica alone; newcomers on few cores slow the job down while the acts take longer, too."""

_WARM_UP, _MEASURED = 5, 20
_LEAST, _MOST = 40, 2000


def fitting_epochs(training_s: float = TRAINING_S) -> int:
    """Epochs that one replica trains for about ``training_s``."""
    train_set, _ = digits.datasets()
    steps = -(-len(train_set) // int(digits.CONFIG["global_batch_size"]))
    return max(_LEAST, min(_MOST, round(training_s / (steps * step_s()))))


def step_s() -> float:
    """Seconds of one step of plain PyTorch on one thread, which is what a replica has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        network = digits.DigitsNet(digits.CONFIG["width"])
        optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
        images, labels = digits.datasets()[0][: digits.CONFIG["global_batch_size"]]
        for i in range(_WARM_UP + _MEASURED):
            if i == _WARM_UP:
                started_s = time.perf_counter()
            optimizer.zero_grad()
            functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
        return (time.perf_counter() - started_s) / _MEASURED
    finally:
        torch.set_num_threads(threads)
