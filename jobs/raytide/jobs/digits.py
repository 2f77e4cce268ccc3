"""Train a small CNN with BatchNorm on scikit-learn's handwritten digits.

1,797 grey images of 8 x 8 pixels that ship with scikit-learn (from the UCI "Optical Recognition of
Handwritten Digits" set): nothing is downloaded. Reaches about 99 % test accuracy.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from raytide.train import batches, epochs, get_context, prepare, report

CONFIG: dict[str, Any] = {
    "epochs": 80,  # about a minute on one core; over 98 % is reached after five
    "global_batch_size": 64,
    "lr": 0.05,  # peak of SGD's learning rate
    "warmup_epochs": 2,
    "weight_decay": 5e-4,
    "width": 32,  # channels of the first layer
    "checkpoint_every_epochs": 10,
    "num_workers": 0,  # DataLoader processes of each replica
    "max_local_batch": None,  # samples that fit into one replica at once; None: all
    "seed": 0,
}


class DigitsNet(nn.Module):
    """Three convolutions, each with BatchNorm and ReLU, then one linear layer: [N, 1, 8, 8] to [N, 10]."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_block(1, width),
            *_block(width, 2 * width),
            nn.MaxPool2d(2),
            *_block(2 * width, 2 * width),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(2 * width * 2 * 2, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the ten digits."""
        logits: Tensor = self.head(self.features(images).flatten(1))
        return logits


def datasets() -> tuple[TensorDataset, TensorDataset]:
    """The fixed split: 1,437 images to train on, 360 to test on, standardised by the former's statistics."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    train_x, test_x = (torch.as_tensor(part, dtype=torch.float32).reshape(-1, 1, 8, 8) for part in parts[:2])
    train_y, test_y = (torch.as_tensor(part, dtype=torch.int64) for part in parts[2:])
    mean, std = train_x.mean(), train_x.std()
    return TensorDataset((train_x - mean) / std, train_y), TensorDataset((test_x - mean) / std, test_y)


def lr_factor(epoch: int, *, warmup: int, total: int) -> float:
    """Share of the peak learning rate in an epoch: a linear rise, then half a cosine down to 1 %."""
    if epoch < warmup:
        return (epoch + 1) / (warmup + 1)
    progress = min(1.0, (epoch - warmup) / max(1, total - warmup))
    return 0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * progress))


def loop(config: dict[str, Any]) -> None:
    """Train, and report loss and test accuracy after each epoch."""
    torch.manual_seed(config["seed"])
    train_set, test_set = datasets()
    network = DigitsNet(config["width"])
    sgd = torch.optim.SGD(
        network.parameters(),
        lr=config["lr"],
        momentum=0.9,
        nesterov=True,
        weight_decay=config["weight_decay"],
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        sgd, lambda epoch: lr_factor(epoch, warmup=config["warmup_epochs"], total=config["epochs"])
    )
    model, optimizer, scheduler = prepare(network, sgd, schedule)

    for epoch in epochs(config["epochs"]):
        model.train()
        loss_sum, seen = 0.0, 0
        for images, labels in batches(
            train_set,
            global_batch_size=config["global_batch_size"],
            shuffle=True,
            seed=config["seed"],
            num_workers=config["num_workers"],
            max_local_batch=config["max_local_batch"],
        ):
            loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
            seen += len(labels)
        scheduler.step()
        correct, tested = evaluate(model, test_set)
        total = get_context().all_reduce([loss_sum, seen, correct, tested])
        is_saved = (epoch + 1) % config["checkpoint_every_epochs"] == 0 or epoch + 1 == config["epochs"]
        metrics = {"loss": total[0] / max(1.0, total[1]), "accuracy": total[2] / max(1.0, total[3])}
        report(metrics, checkpoint=is_saved)


def evaluate(model: nn.Module, test_set: TensorDataset) -> tuple[int, int]:
    """Correct answers and images in this replica's part of the test set."""
    model.eval()
    correct = tested = 0
    with torch.no_grad():
        for images, labels in batches(test_set, global_batch_size=len(test_set), train=False):
            correct += int((model(images).argmax(dim=1) == labels).sum())
            tested += len(labels)
    return correct, tested


def _block(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    # No bias: BatchNorm's shift takes its place.
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()


if __name__ == "__main__":
    from raytide.jobs.running import main

    main("raytide.jobs.digits")
