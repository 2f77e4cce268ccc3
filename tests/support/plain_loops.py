"""Training loops that run on raytide and, unchanged, as plain single-process PyTorch: the expected result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset, default_collate

from raytide.train import loop as elastic
from raytide.train.data import epoch_order
from raytide.train.session import current_session
from support.threads import Probe, ThreadJob

Loop = Callable[[dict[str, Any]], object]


class Plain:
    """The calls of ``raytide.train`` in one process, on whole global batches."""

    def __init__(self) -> None:
        self.step = 0
        self.epoch = 0
        self.stopped = False
        self.reports: list[dict[str, float]] = []

    def prepare(self, *objects: Any) -> Any:
        return objects[0] if len(objects) == 1 else objects

    def epochs(self, total: int) -> Iterator[int]:
        for self.epoch in range(total):
            if self.stopped:
                return
            yield self.epoch

    def batches(
        self,
        dataset: Any,
        *,
        global_batch_size: int,
        train: bool = True,
        shuffle: bool = False,
        seed: int = 0,
        **_: Any,
    ) -> Iterator[Any]:
        epoch = self.epoch if train else 0
        order = epoch_order(len(dataset), seed=seed, epoch=epoch, shuffle=shuffle and train)
        indices = [int(i) for i in order]
        for start in range(0, len(indices), global_batch_size):
            yield default_collate([dataset[i] for i in indices[start : start + global_batch_size]])
            self.step += train

    def report(self, metrics: Mapping[str, Any], *, checkpoint: bool = False) -> None:
        self.reports.append({key: float(value) for key, value in metrics.items()})

    def get_context(self) -> Plain:
        return self

    # --- the context -------------------------------------------------------------------------

    ends_step = True
    rehearsing = False

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        return [float(v) for v in values]

    def get_world_rank(self) -> int:
        return 0

    def get_world_size(self) -> int:
        return 1

    def stop_training(self) -> None:
        self.stopped = True


def samples(count: int = 50, features: int = 6, seed: int = 0) -> TensorDataset:
    """Inputs and targets in float64."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, features, generator=generator, dtype=torch.float64)
    return TensorDataset(x, torch.randn(count, 1, generator=generator, dtype=torch.float64))


def drawn(module: nn.Module, seed: int = 1) -> nn.Module:
    """Weights of the module from a generator of their own."""
    generator = torch.Generator().manual_seed(seed)
    for param in module.parameters():
        with torch.no_grad():
            param.copy_(torch.randn(param.shape, generator=generator, dtype=torch.float64) / 3)
    return module


def mlp(seed: int = 1) -> nn.Module:
    return drawn(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).double(), seed)


class Run:
    """What a run left behind.

    Attributes:
        finals: Weights (and whatever else the loop kept) of every rank that reached the end.
    """

    def __init__(self) -> None:
        self.finals: dict[int, list[Tensor]] = {}

    def keep(self, rank: int, *objects: Any) -> None:
        """Called by the loop at its end."""
        tensors = [t for o in objects for t in (o.parameters() if isinstance(o, nn.Module) else [torch.as_tensor(o)])]
        self.finals[rank] = [t.detach().clone() for t in tensors]


def plain(loop: Loop, **config: Any) -> Run:
    """Run a loop in one process."""
    run, api = Run(), Plain()
    loop({**config, "api": api, "run": run, "probe": lambda place: None})
    return run


class Elastic(Run):
    """A run on threads, as a context that ends with the job's end."""

    def __init__(self, loop: Loop, replicas: int, probe: Probe | None = None, **options: Any) -> None:
        super().__init__()
        self.probe = probe or Probe()
        config = {**options.pop("config", {}), "api": elastic, "run": self, "probe": self.probe}
        self.job = ThreadJob(loop, config, replicas, **options)
        self.probe.job = self.job

    def keep(self, rank: int, *objects: Any) -> None:
        if not current_session().inert:  # one that was left behind ends its loop without effect, and starts over
            super().keep(rank, *objects)

    def finish(self, phase: str = "succeeded", timeout_s: float = 20.0) -> Elastic:
        """Start if need be, wait for the end, and see that all that was planned happened."""
        if not self.job.started:
            self.job.start()
        end = self.job.result(timeout_s)
        assert end.phase == phase, f"{end}\n{self.job.story()}"
        self.probe.check()
        return self


def equal(run: Run, expected: Run, limit: float = 1e-12) -> None:
    """Every rank ended with the expected values."""
    assert run.finals, "no rank reached the end"
    for rank, tensors in run.finals.items():
        assert len(tensors) == len(expected.finals[0])
        for number, (got, want) in enumerate(zip(tensors, expected.finals[0], strict=True)):
            scale = max(float(want.double().norm()), 1e-30)
            difference = float((got.double() - want.double()).norm()) / scale
            assert difference <= limit, f"rank {rank}, tensor {number}: {difference:.2e}"


DATA = samples(50)
VALIDATION = samples(20, seed=9)
BATCH, EPOCHS = 12, 3
PER_EPOCH = 5
"""Steps of an epoch; the last one has two samples, less than three replicas need."""


def full_loop(config: dict[str, Any]) -> None:
    """A loop with every kind of call point: user collectives before and behind the step, validation, reports."""
    api, probe = config["api"], config["probe"]
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    per_step = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    model, optimizer, per_step = api.prepare(model, optimizer, per_step)
    context = api.get_context()
    for _ in api.epochs(config.get("epochs", EPOCHS)):
        for x, y in api.batches(DATA, global_batch_size=BATCH, shuffle=True, seed=1):
            probe("begin")
            context.all_reduce([float(x.sum())])
            probe("forward")
            hidden = model[0](x)
            hidden.register_hook(lambda grad: probe("within backward"))  # the last layer's gradients are under way
            output = model[1:](hidden)
            output.register_hook(lambda grad: probe("backward"))
            loss = ((output - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            probe("step")
            optimizer.step()
            probe("stepped")
            context.all_reduce([float((x * x).sum())])
            probe("reduced")
            per_step.step()
            probe("end")
        probe("validation")
        counted = 0.0
        for x, _ in api.batches(VALIDATION, global_batch_size=8, train=False):
            counted += len(x)
            probe("in validation")
        probe("validated")
        counted = context.all_reduce([counted])[0]
        probe("report")
        api.report({"counted": counted}, checkpoint=config.get("checkpoint", False))
        probe("reported")
    probe("finished")
    config["run"].keep(context.get_world_rank(), model, optimizer.param_groups[0]["lr"])


def positions(folder: Path, epochs: int = EPOCHS, first: int = 0) -> None:
    """The applied steps are the whole of every epoch, each position in one step, in order."""
    lines = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    steps = sorted({(n["step"], n["epoch"], n["cursor"], n["cursor_after"]) for n in lines})
    size = len(DATA)
    want = [(s, s // PER_EPOCH, BATCH * (s % PER_EPOCH)) for s in range(first, epochs * PER_EPOCH)]
    assert steps == [(s, e, c, min(size, c + BATCH)) for s, e, c in want]
