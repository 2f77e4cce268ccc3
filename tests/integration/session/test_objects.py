"""What a loop may prepare: schedulers, scalers, several optimizers, averages of weights, anything with state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from raytide.errors import ConfigError
from raytide.train.session import _check
from support.plain_loops import BATCH, DATA, Elastic, equal, mlp, plain
from support.threads import Probe, ThreadJob, fall_behind, grow, migrate


def disturbed() -> Probe:
    """Grow, lose a member between backward and step, lose one behind the step, and move rank 0 away."""
    probe = Probe().at(0, 1, "begin", grow(2)).kill(1, 5, "step").kill(0, 7, "stepped")
    return probe.at(0, 9, "begin", lambda job, _: job.wait_world(3)).at(0, 11, "begin", migrate(0))


def same(loop: Any, **options: Any) -> None:
    """Undisturbed at sizes 1 and 3, disturbed, and with a rank a step behind: always as in plain PyTorch."""
    expected = plain(loop)
    equal(Elastic(loop, 1, **options).finish(), expected)
    equal(Elastic(loop, 3, **options).finish(), expected)
    equal(Elastic(loop, 1, disturbed(), **options).finish(), expected)
    for behind in (0, 1):
        equal(Elastic(loop, 3, Probe().at(behind, 6, "step", fall_behind(2)), **options).finish(), expected)


@pytest.mark.parametrize("early", [True, False])
def test_schedulers_made_before_and_after_prepare(early: bool) -> None:
    """Per step and per epoch, without a warning of torch."""

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        if not early:
            model, optimizer = api.prepare(model, optimizer)
        steps = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=15)
        epochs = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.7)
        api.prepare(*((model, optimizer) if early else ()), steps, epochs)
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH, shuffle=True, max_local_batch=5):
                probe("begin")
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                probe("step")
                optimizer.step()
                probe("stepped")
                if api.get_context().ends_step:
                    api.get_context().all_reduce([1.0])
                steps.step()
            api.get_context().all_reduce([1.0])
            epochs.step()
        group = optimizer.param_groups[0]
        counts = [steps.last_epoch, epochs.last_epoch]
        config["run"].keep(api.get_context().get_world_rank(), model, group["lr"], group["betas"][0], *counts)

    same(loop)


def test_plateau_scheduler_with_a_validation_loss() -> None:
    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
        api.prepare(model, optimizer, plateau)
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH):
                probe("begin")
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                probe("step")
                optimizer.step()
                probe("stepped")
            total = 0.0
            with torch.no_grad():
                for x, y in api.batches(DATA, global_batch_size=BATCH, train=False):
                    total += ((model(x) - y) ** 2).sum().item()
            plateau.step(round(api.get_context().all_reduce([total])[0], 6))
        config["run"].keep(api.get_context().get_world_rank(), model, optimizer.param_groups[0]["lr"])

    same(loop)


def test_scheduler_stepped_before_its_optimizer() -> None:
    """A lost step takes back what it did to the optimizer's learning rate, too."""

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        api.prepare(model, optimizer, scheduler)
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH):
                probe("begin")
                optimizer.zero_grad()
                optimizer._opt_called = True  # torch warns about this order
                scheduler.step()
                ((model(x) - y) ** 2).mean().backward()
                probe("step")
                optimizer.step()
                probe("stepped")
        config["run"].keep(api.get_context().get_world_rank(), model, optimizer.param_groups[0]["lr"])

    same(loop)


@pytest.mark.parametrize("clip", [True, False])
def test_gradient_scaler_that_skips_steps(clip: bool) -> None:
    """Every fourth loss overflows: the step is skipped and the scale halved, on all ranks alike."""

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
        api.prepare(model, optimizer, scaler)
        context = api.get_context()
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH, max_local_batch=5):
                probe("begin")
                optimizer.zero_grad()
                loss = ((model(x) - y) ** 2).mean() * (float("inf") if context.step % 4 == 3 else 1.0)
                scaler.scale(loss).backward()
                if clip:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                probe("step")
                scaler.step(optimizer)
                probe("stepped")
                scaler.update()
        config["run"].keep(context.get_world_rank(), model, scaler.get_scale(), scaler._get_growth_tracker())

    same(loop)


def test_scaler_whose_step_is_lost_behind_unscale() -> None:
    """The peer dies after the reduction: gradients are unscaled already, and the step is done again."""

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        api.prepare(model, optimizer, scaler)
        for _ in api.epochs(2):
            for x, y in api.batches(DATA, global_batch_size=BATCH):
                optimizer.zero_grad()
                scaler.scale(((model(x) - y) ** 2).mean()).backward()
                scaler.unscale_(optimizer)
                probe("unscaled")
                api.get_context().all_reduce([1.0])
                scaler.step(optimizer)
                scaler.update()
        config["run"].keep(api.get_context().get_world_rank(), model, scaler.get_scale())

    expected = plain(loop)
    equal(Elastic(loop, 3, Probe().kill(1, 4, "unscaled")).finish(), expected)
    equal(Elastic(loop, 2, Probe().kill(0, 6, "unscaled")).finish(), expected)


def gan(config: dict[str, Any]) -> None:
    """Two models, two optimizers, two backward passes; the second one reaches both models."""
    api, probe = config["api"], config["probe"]
    make, judge = nn.Linear(6, 6).double(), mlp(4)
    with torch.no_grad():
        make.weight.copy_(torch.eye(6) * 0.5)
        make.bias.zero_()
    first = torch.optim.Adam(judge.parameters(), lr=0.02)
    second = torch.optim.SGD(make.parameters(), lr=0.05, momentum=0.9)
    decay = torch.optim.lr_scheduler.ExponentialLR(first, 0.97)
    api.prepare(make, judge, first, second, decay)
    for _ in api.epochs(3):
        for x, y in api.batches(DATA, global_batch_size=BATCH, shuffle=True):
            probe("begin")
            first.zero_grad()
            ((judge(x) - y) ** 2 + judge(make(x).detach()) ** 2).mean().backward()
            first.step()
            decay.step()
            probe("between")
            second.zero_grad()
            ((judge(make(x)) - 1) ** 2).mean().backward()
            nn.utils.clip_grad_norm_(make.parameters(), 0.3)
            probe("step")
            second.step()
            probe("stepped")
    config["run"].keep(api.get_context().get_world_rank(), make, judge, first.param_groups[0]["lr"])


def test_two_models_with_two_optimizers() -> None:
    same(gan)


@pytest.mark.parametrize("rank", [0, 2])
def test_kill_between_two_optimizers(rank: int) -> None:
    """The first optimizer had stepped: its step is undone, or completed by those who had done both."""
    equal(Elastic(gan, 3, Probe().kill(rank, 6, "between")).finish(), plain(gan))


def test_several_steps_of_one_optimizer_in_a_batch() -> None:
    """Two inner steps per batch commit together."""

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH):
                probe("begin")
                for inner in range(2):
                    optimizer.zero_grad()
                    ((model(x) - y) ** 2).mean().backward()
                    probe(("inner", "step")[inner])
                    optimizer.step()
                probe("stepped")
        config["run"].keep(api.get_context().get_world_rank(), model)

    same(loop)
    equal(Elastic(loop, 3, Probe().kill(1, 6, "inner")).finish(), plain(loop))
    equal(Elastic(loop, 3, Probe().kill(0, 4, "inner")).finish(), plain(loop))


@pytest.mark.parametrize("max_local_batch", [None, 4])
def test_closures(max_local_batch: int | None) -> None:
    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.Adam(model.parameters(), lr=0.05))
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH, max_local_batch=max_local_batch):
                probe("begin")

                def closure(x: Any = x, y: Any = y) -> Any:
                    optimizer.zero_grad()
                    loss = ((model(x) - y) ** 2).mean()
                    loss.backward()
                    probe("step")
                    return loss

                assert optimizer.step(closure).item() >= 0.0
                probe("stepped")
        config["run"].keep(api.get_context().get_world_rank(), model)

    same(loop)


class Meter:
    """Anything with state: counts the samples' sum over all ranks."""

    def __init__(self) -> None:
        self.total = torch.zeros((), dtype=torch.float64)
        self.seen: list[int] = []

    def update(self, value: float, step: int) -> None:
        self.total = self.total + value
        self.seen.append(step)

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total, "seen": list(self.seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total, self.seen = state["total"].clone(), list(state["seen"])


def test_averages_of_weights_and_custom_state() -> None:
    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        average = AveragedModel(model)
        meter = Meter()
        api.prepare(model, optimizer, average, meter)
        context = api.get_context()
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH, max_local_batch=5):
                probe("begin")
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                probe("step")
                optimizer.step()
                probe("stepped")
                average.update_parameters(model)
                if context.ends_step:
                    meter.update(round(context.all_reduce([0.5])[0] / context.get_world_size(), 6), 0)
        rank = context.get_world_rank()
        config["run"].keep(rank, model, average.module, average.n_averaged, meter.total, len(meter.seen))

    same(loop)


def test_what_cannot_be_elastic_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"LBFGS .* Use an optimizer of first order"):
        _check(torch.optim.LBFGS(mlp().parameters()))
    with pytest.raises(ConfigError, match=r"1 has sparse gradients.*sparse=False"):
        _check(nn.Sequential(nn.Identity(), nn.Embedding(3, 2, sparse=True)))


def test_random_numbers_of_a_repeated_step_are_the_same() -> None:
    """Dropout draws the same mask when a step is done again; one replica, so that threads share nothing."""
    masks: dict[int, list[torch.Tensor]] = {}

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in api.epochs(2):
            for x, y in api.batches(DATA, global_batch_size=BATCH, seed=3):
                masks.setdefault(api.get_context().step, []).append(torch.rand(4))
                probe("begin")
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
        config["run"].keep(api.get_context().get_world_rank(), model)

    def fail_once(job: ThreadJob, replica: str) -> None:
        membership = job.runtimes[replica].membership
        assert membership.member.active is not None
        membership.report_failure(membership.member.active.number, "for the test")

    expected = plain(loop)
    masks.clear()
    run = Elastic(loop, 1, Probe().at(0, 6, "begin", fail_once)).finish()
    equal(run, expected)
    repeated = {step: drawn for step, drawn in masks.items() if len(drawn) > 1}
    assert list(repeated) == [6]
    assert torch.equal(*repeated[6])
