"""Training loops for tests on a real cluster: tiny, in float64, with faults to order.

The module is sent to replicas by value, so it needs nothing of the test tree there.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

from raytide.train import batches, epochs, get_context, prepare, report, transfer

FEATURES, SAMPLES, BATCH, EPOCHS = 6, 50, 8, 40
STEPS = EPOCHS * -(-SAMPLES // BATCH)


def data() -> TensorDataset:
    """50 samples: with batches of 8, the last step of an epoch has 2, less than three replicas need."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(SAMPLES, FEATURES, generator=generator, dtype=torch.float64)
    return TensorDataset(x, x.sum(dim=1, keepdim=True).cos())


def build() -> tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """Model, optimizer and scheduler, the same in every process."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def reference(epoch_count: int = EPOCHS) -> dict[str, torch.Tensor]:
    """Weights after the same training in plain PyTorch, on the whole global batch."""
    from raytide.train.data import epoch_order

    model, optimizer, scheduler = build()
    x, y = data().tensors
    for epoch in range(epoch_count):
        order = torch.as_tensor(list(epoch_order(SAMPLES, seed=2, epoch=epoch, shuffle=True)))
        for start in range(0, SAMPLES, BATCH):
            picked = order[start : start + BATCH]
            loss = ((model(x[picked]) - y[picked]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
    return model.state_dict()


def loop(config: dict[str, Any]) -> None:
    """Train, slowly until the test makes a file ``go``; with ``fault``, a rank comes to harm at a step.

    Config: ``folder`` (weights and proofs of faults go there), ``sleep_s`` of each step until the test lets the
    job run, ``fault``: a dict of ``kind`` (``kill``, ``freeze``, ``raise``, ``break``, ``kill_before_step``),
    ``rank`` and ``step``; ``drag``: a dict of ``rank`` and the seconds ``s`` that it wastes in each step.
    """
    model, optimizer, scheduler = prepare(*build())
    context, dataset = get_context(), data()
    for epoch in epochs(config.get("epochs", EPOCHS)):
        seen = 0.0
        for x, y in batches(
            dataset, global_batch_size=BATCH, shuffle=True, seed=2, num_workers=config.get("num_workers", 0)
        ):
            fault(config, before_backward=True)
            drag(config)
            loss = ((model(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            if fault(config, before_backward=False):
                break
            optimizer.step()
            seen += 1
            pause(config)
        scheduler.step()
        total = context.all_reduce([1.0])
        metrics = {"ranks": total[0], "epoch": epoch, "lr": scheduler.get_last_lr()[0]}
        report(metrics, checkpoint=config.get("save", False))
    folder = Path(config["folder"])
    torch.save(model.state_dict(), folder / f"rank{context.get_world_rank()}.pt")


def pause(config: dict[str, Any]) -> None:
    """Leave a test the time for what it does to the job, and none afterwards."""
    if not (Path(config["folder"]) / "go").exists():
        time.sleep(config.get("sleep_s", 0.25))


def fault(config: dict[str, Any], *, before_backward: bool) -> bool:
    """Come to harm if this is the rank and step of the configured fault, once; returns True to break the loop."""
    plan = config.get("fault")
    context = get_context()
    if not plan or context.rehearsing or context.get_world_rank() != plan["rank"] or context.step != plan["step"]:
        return False
    if before_backward != (plan["kind"] in ("kill", "raise", "freeze")):
        return False
    proof = Path(config["folder"]) / f"fault-{plan['kind']}-{plan['rank']}-{plan['step']}"
    if proof.exists():
        return False
    proof.write_text(str(os.getpid()))
    if plan["kind"] == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif plan["kind"] in ("kill", "kill_before_step"):
        os.kill(os.getpid(), signal.SIGKILL)
    elif plan["kind"] == "raise":
        raise ZeroDivisionError("a mistake of the user")
    return plan["kind"] == "break"


def drag(config: dict[str, Any]) -> None:
    """Be slow in every step, in the process that first had rank ``drag["rank"]``."""
    plan, context = config.get("drag"), get_context()
    if not plan or context.rehearsing:
        return
    proof = Path(config["folder"]) / "dragging"
    if context.get_world_rank() == plan["rank"] and not proof.exists():
        proof.write_text(str(os.getpid()))
    if proof.exists() and proof.read_text() == str(os.getpid()):
        time.sleep(plan["s"])


def wounded_transfer(config: dict[str, Any]) -> None:
    """The loop, with a newcomer that dies in the middle of receiving its state, once."""
    proof = Path(config["folder"]) / "fault-transfer-newcomer"
    if get_context().rehearsing and not proof.exists():
        original = transfer._scatter

        def die(*arguments: Any) -> None:
            original(*arguments)
            proof.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)

        transfer._scatter = die
    loop(config)
