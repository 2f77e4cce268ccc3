"""Train a small GPT, character by character, on the English text of Python's own manual.

The text is ``pydoc_data.topics``, what ``help("for")`` prints: about 465,000 characters that every
Python ships. The first 90 % train, the rest validates. Its wording differs a little between Python
versions, so compare perplexities within one version.
"""

from __future__ import annotations

import math
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from raytide.jobs.gpt import GPT, GPTConfig
from raytide.train import batches, epochs, get_context, prepare, report

CONFIG: dict[str, Any] = {
    "epochs": 2,  # about 730 steps each
    "global_batch_size": 12,  # sequences
    "context": 48,  # characters of one sequence
    "layers": 4,
    "heads": 4,
    "width": 160,
    "dropout": 0.1,
    "lr": 2e-3,  # peak of AdamW's learning rate
    "warmup_steps": 50,
    "max_characters": None,  # use only the beginning of the text; None: all of it
    "num_workers": 0,  # DataLoader processes of each replica
    "max_local_batch": None,  # sequences that fit into one replica at once; None: all
    "seed": 0,
}
TRAIN_SHARE = 0.9


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Consecutive, disjoint windows of a text: item i is (characters, the same ones shifted by one)."""

    def __init__(self, ids: Tensor, context: int) -> None:
        self.ids = ids
        self.context = context

    def __len__(self) -> int:
        return max(0, (len(self.ids) - 1) // self.context)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start, end = index * self.context, (index + 1) * self.context
        return self.ids[start:end], self.ids[start + 1 : end + 1]


def read_text(max_characters: int | None = None) -> str:
    """The manual's pages, in the order of their titles."""
    return "\n\n".join(topics[title] for title in sorted(topics))[:max_characters]


def encode(text: str) -> tuple[Tensor, int]:
    """Character ids of the text, and how many different characters it has."""
    alphabet = {character: index for index, character in enumerate(sorted(set(text)))}
    return torch.tensor([alphabet[character] for character in text]), len(alphabet)


def datasets(context: int, max_characters: int | None = None) -> tuple[Windows, Windows, int]:
    """Windows to train on, windows to validate on (the end of the text), and the vocabulary's size."""
    ids, vocabulary = encode(read_text(max_characters))
    border = int(len(ids) * TRAIN_SHARE)
    return Windows(ids[:border], context), Windows(ids[border:], context), vocabulary


def lr_factor(step: int, *, warmup: int, total: int) -> float:
    """Share of the peak learning rate at a step: a linear rise, then half a cosine down to 10 %."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return 0.1 + 0.9 * 0.5 * (1.0 + math.cos(math.pi * progress))


def loop(config: dict[str, Any]) -> None:
    """Train, and report training loss and validation perplexity after each epoch."""
    torch.manual_seed(config["seed"])
    train_set, validation_set, vocabulary = datasets(config["context"], config["max_characters"])
    shape = {key: config[key] for key in ("context", "layers", "heads", "width", "dropout")}
    network = GPT(GPTConfig(vocabulary, **shape))
    adamw = torch.optim.AdamW(network.parameters(), lr=config["lr"], betas=(0.9, 0.95), weight_decay=0.01)
    steps = config["epochs"] * math.ceil(len(train_set) / config["global_batch_size"])
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adamw, lambda step: lr_factor(step, warmup=config["warmup_steps"], total=steps)
    )
    model, optimizer, scheduler = prepare(network, adamw, schedule)

    for _epoch in epochs(config["epochs"]):
        model.train()
        loss_sum, seen = 0.0, 0
        for ids, targets in batches(
            train_set,
            global_batch_size=config["global_batch_size"],
            shuffle=True,
            seed=config["seed"],
            num_workers=config["num_workers"],
            max_local_batch=config["max_local_batch"],
        ):
            loss = mean_loss(model, ids, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            loss_sum += loss.item() * len(ids)
            seen += len(ids)
        val_sum, val_seen = evaluate(model, validation_set, config["global_batch_size"])
        total = get_context().all_reduce([loss_sum, seen, val_sum, val_seen])
        val_loss = total[2] / max(1.0, total[3])
        train_loss = total[0] / max(1.0, total[1])
        metrics = {"loss": train_loss, "val_loss": val_loss, "perplexity": perplexity(val_loss)}
        report(metrics, checkpoint=True)


def mean_loss(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy per character, in nats; every sequence has the same weight."""
    return functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())


def evaluate(model: nn.Module, validation_set: Windows, batch: int) -> tuple[float, int]:
    """Summed loss and number of sequences in this replica's part of the validation set."""
    model.eval()
    loss_sum, seen = 0.0, 0
    with torch.no_grad():
        for ids, targets in batches(validation_set, global_batch_size=2 * batch, train=False):
            loss_sum += mean_loss(model, ids, targets).item() * len(ids)
            seen += len(ids)
    return loss_sum, seen


def perplexity(loss: float) -> float:
    """How many equally likely characters a loss (in nats) amounts to; infinite for a diverged model."""
    return math.exp(loss) if loss < 700 else math.inf


if __name__ == "__main__":
    from raytide.jobs.running import main

    main("raytide.jobs.char_gpt")
