"""Ranks whose programs part, and loops that raise: the job fails naming what happened, and never hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from raytide.elastic.model import Bounds, Limits
from raytide.train.session import current_session
from support.plain_loops import BATCH, DATA, Elastic, mlp
from support.threads import Probe, grow

LIMITS = Bounds(1, 4, limits=Limits(divergence_s=1.0))
Mistake = Callable[[Any, int], str]


def training(mistake: Mistake, **arguments: Any) -> Callable[[dict[str, Any]], None]:
    """A loop in which rank 1 makes a mistake behind the forward pass of step 4."""

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1))
        context = api.get_context()
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH, **arguments):
                probe("begin")
                loss = ((model(x) - y) ** 2).mean()
                does = ""
                if not context.rehearsing and context.step == 4 and context.get_world_rank() == 1:
                    does = mistake(context, context.step)
                if does == "break":
                    break
                if does == "return":
                    return
                if does == "continue":
                    continue
                optimizer.zero_grad()
                if does != "no backward":
                    loss.backward()
                optimizer.step()

    return loop


def raises(context: Any, step: int) -> str:
    raise ZeroDivisionError("a mistake of the user")


@pytest.mark.parametrize("kind", ["break", "return", "continue", "no backward"])
def test_a_rank_that_goes_its_own_way(kind: str) -> None:
    loop = training(lambda context, step: kind)
    started_s = time.monotonic()
    run = Elastic(loop, 2, bounds=LIMITS).finish("failed")
    assert time.monotonic() - started_s < 15.0
    assert "the ranks have parted" in run.job.ended.error
    assert "rank 0 is" in run.job.ended.error
    assert "rank 1 is" in run.job.ended.error
    assert "stop_training()" in run.job.ended.error


@pytest.mark.parametrize("size", [1, 7, 40])
def test_a_collective_on_one_rank_only(size: int) -> None:
    """Whatever it meets on the others (a vote, another call), nobody gets a wrong sum."""
    sums: list[list[float]] = []

    def alone(context: Any, step: int) -> str:
        sums.append(context.all_reduce([1.0] * size))
        return ""

    run = Elastic(training(alone), 2, bounds=LIMITS).finish("failed")
    assert "the ranks have parted" in run.job.ended.error or "failed 5 times" in run.job.ended.error
    assert sums == [] or all(s == [1.0] * size for s in sums)


def test_different_global_batches() -> None:
    """The vote of the first step shows it."""

    def loop(config: dict[str, Any]) -> None:
        api = config["api"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1))
        replica = int(current_session().spec.replica[1:])
        for _ in api.epochs(2):
            for x, y in api.batches(DATA, global_batch_size=BATCH + replica):
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()

    run = Elastic(loop, 2, bounds=LIMITS).finish("failed")
    assert "the ranks have parted at step 0" in run.job.ended.error


def test_validation_on_one_rank_only() -> None:
    """Every rank evaluates its part: where one is missing, the result would lack samples."""

    def loop(config: dict[str, Any]) -> None:
        api = config["api"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in api.epochs(2):
            for x, y in api.batches(DATA, global_batch_size=BATCH):
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
            if api.get_context().get_world_rank() == 0:
                for x, _ in api.batches(DATA, global_batch_size=BATCH, train=False):
                    model(x)

    run = Elastic(loop, 2, bounds=LIMITS).finish("failed")
    assert "the ranks have parted" in run.job.ended.error


def test_an_exception_ends_the_job_with_its_traceback() -> None:
    run = Elastic(training(raises), 3, bounds=LIMITS).finish("failed")
    assert "the training loop raised on rank 1" in run.job.ended.error
    assert "ZeroDivisionError: a mistake of the user" in run.job.ended.error
    assert 'raise ZeroDivisionError("a mistake of the user")' in run.job.ended.error


def test_an_exception_in_a_newcomer_fails_its_request_only() -> None:
    def loop(config: dict[str, Any]) -> None:
        if current_session().spec.replica == "r1":
            raise ValueError("only here")
        training(lambda context, step: "")(config)

    names: list[str] = []

    def ask(job: Any, replica: str) -> None:
        names.append(job.post(lambda q: _grow(q, job)))
        job.answer(names[0])

    run = Elastic(loop, 1, Probe().at(0, 3, "begin", ask), bounds=LIMITS).finish()
    assert "ValueError: only here" in run.job.answers[names[0]].error


def _grow(name: str, job: Any) -> Any:
    from raytide.elastic.messages import Resize

    return Resize(name, add=job.slots(1))


def test_a_call_between_the_micro_batches_of_a_step_is_refused() -> None:
    """The ranks have different numbers of them."""

    def loop(config: dict[str, Any]) -> None:
        api = config["api"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1))
        for x, y in api.batches(DATA, global_batch_size=BATCH, max_local_batch=4):
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
            api.get_context().all_reduce([1.0])

    run = Elastic(loop, 1, bounds=LIMITS).finish("failed")
    assert "all_reduce() came behind a batch that does not end its step" in run.job.ended.error
    assert "get_context().ends_step" in run.job.ended.error


def test_a_second_training_pass_in_an_epoch_is_refused() -> None:
    def loop(config: dict[str, Any]) -> None:
        api = config["api"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in api.epochs(2):
            for _ in range(2):
                for x, y in api.batches(DATA, global_batch_size=BATCH):
                    ((model(x) - y) ** 2).mean().backward()
                    optimizer.step()

    run = Elastic(loop, 1, bounds=LIMITS).finish("failed")
    assert "a second training batches() in epoch 0" in run.job.ended.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"global_batch_size": 0}, "global_batch_size: 0 is less than 1. Give at least 1 samples."),
        ({"global_batch_size": 2.5}, "global_batch_size: 2.5 is not a whole number"),
        ({"global_batch_size": 8, "max_local_batch": 0}, "max_local_batch: 0 is less than 1"),
        ({"global_batch_size": 64, "drop_last": True}, "drop_last: the dataset has 50 samples"),
        ({"global_batch_size": 2, "equal_shares": True}, "cannot give each of up to 4 replicas a share"),
        ({"global_batch_size": 8, "num_workers": -1}, "num_workers"),
        ({"global_batch_size": 0, "train": False}, "global_batch_size: 0 is less than 1"),
    ],
)
def test_bad_arguments_of_batches(arguments: dict[str, Any], message: str) -> None:
    def loop(config: dict[str, Any]) -> None:
        api = config["api"]
        api.prepare(mlp())
        for _ in api.epochs(1):
            for _ in api.batches(DATA, **arguments):
                pass

    run = Elastic(loop, 2, bounds=LIMITS).finish("failed")
    assert "ConfigError" in run.job.ended.error
    assert message in run.job.ended.error


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda: (object(),), "a object has no state_dict() and load_state_dict()"),
        (lambda: (m := mlp(), m), "the same Sequential was given twice. Prepare each once"),
    ],
)
def test_bad_arguments_of_prepare(prepare: Callable[[], tuple[Any, ...]], message: str) -> None:
    run = Elastic(lambda config: config["api"].prepare(*prepare()), 1, bounds=LIMITS).finish("failed")
    assert message in run.job.ended.error


def test_growing_after_a_fork_of_the_programs_is_no_way_out() -> None:
    """A rank that returned early while a switch is under way: named all the same."""
    run = Elastic(
        training(lambda context, step: "return"), 2, Probe().at(0, 3, "begin", grow(1)), bounds=LIMITS
    ).finish("failed")
    assert "the ranks have parted" in run.job.ended.error
