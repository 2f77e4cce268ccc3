"""Checkpoints of running jobs: written beside training, resumed at another size, refused by other models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from raytide.elastic.messages import Checkpoint, Resume, Stop, Suspend
from raytide.elastic.model import Bounds
from raytide.train.checkpoint import CheckpointStore
from support.plain_loops import BATCH, DATA, Elastic, equal, full_loop, mlp, plain, positions
from support.threads import Probe, ThreadJob

EXPECTED = plain(full_loop)


def ask(make: Any) -> Any:
    """Post a request from inside the loop, and wait until the members have heard of it."""

    def action(job: ThreadJob, replica: str) -> None:
        job.post(make)
        if make is not Checkpoint:
            job.wait(lambda: all(r.membership.member.halt is not None for r in job.runtimes.values()))
        else:
            job.wait(lambda: bool(job.runtimes[job.member(0)].membership.member.saves) or bool(job.answers))

    return action


def stopped_at(folder: Path, step: int, replicas: int) -> str:
    """Run a job that stops with a checkpoint behind a step; returns its path."""
    run = Elastic(full_loop, replicas, Probe().at(0, step, "begin", ask(Stop)), storage=str(folder))
    run.finish("stopped")
    answer = next(iter(run.job.answers.values()))
    assert not answer.error
    return answer.path


@pytest.mark.parametrize(("step", "before", "after"), [(3, 1, 3), (6, 3, 2), (8, 2, 1), (9, 2, 5)])
def test_stopped_and_resumed_at_another_size(step: int, before: int, after: int, tmp_path: Path) -> None:
    path = stopped_at(tmp_path / "storage", step, before)
    run = Elastic(full_loop, after, storage=str(tmp_path / "storage"))
    run.job.start(checkpoint=path)
    equal(run.finish(), EXPECTED)


def test_suspended_and_resumed_within_one_job(tmp_path: Path) -> None:
    probe = Probe().at(1, 6, "begin", ask(Suspend))
    run = Elastic(full_loop, 2, probe, storage=str(tmp_path / "storage"), trace=str(tmp_path / "trace"))
    run.job.start()
    run.job.wait(lambda: str(run.job.state.phase) == "suspended", 20.0, "suspended")
    assert not run.job.request(lambda q: Resume(q, run.job.slots(3))).error
    equal(run.finish(), EXPECTED)
    positions(tmp_path / "trace")


def test_a_checkpoint_beside_training_does_not_disturb_it(tmp_path: Path) -> None:
    probe = Probe().at(0, 7, "stepped", ask(Checkpoint))
    run = Elastic(full_loop, 2, probe, storage=str(tmp_path)).finish()
    equal(run, EXPECTED)
    answer = next(iter(run.job.answers.values()))
    assert not answer.error
    resumed = Elastic(full_loop, 3, storage=str(tmp_path))
    resumed.job.start(checkpoint=answer.path)
    equal(resumed.finish(), EXPECTED)


def test_a_checkpoint_asked_for_behind_the_last_step_is_written(tmp_path: Path) -> None:
    probe = Probe().at(0, 14, "reported", ask(Checkpoint))
    run = Elastic(full_loop, 2, probe, storage=str(tmp_path)).finish()
    answer = next(iter(run.job.answers.values()))
    assert not answer.error
    assert CheckpointStore(str(tmp_path)).read(answer.path)[1].position.epoch == 3


def test_report_with_a_checkpoint_resumes_with_the_next_epoch(tmp_path: Path) -> None:
    """It is the last statement of an epoch: nothing of the epoch is done again, nothing is left out."""
    storage = str(tmp_path / "storage")
    run = Elastic(full_loop, 2, storage=storage, config={"checkpoint": True}).finish()
    equal(run, EXPECTED)
    store = CheckpointStore(storage)
    assert [c.meta.position.epoch for c in store.list()] == [1, 2, 3]
    assert [c.meta.position.cursor for c in store.list()] == [0, 0, 0]
    resumed = Elastic(full_loop, 3, storage=storage, trace=str(tmp_path / "trace"))
    resumed.job.start(checkpoint=store.list()[1].path)
    equal(resumed.finish(), EXPECTED)
    positions(tmp_path / "trace", first=10)


def test_resumed_behind_the_end_there_is_nothing_to_do(tmp_path: Path) -> None:
    run = Elastic(full_loop, 2, storage=str(tmp_path), config={"checkpoint": True}).finish()
    resumed = Elastic(full_loop, 2, storage=str(tmp_path))
    resumed.job.start(checkpoint=CheckpointStore(str(tmp_path)).list()[-1].path)
    equal(resumed.finish(), EXPECTED)
    assert run.finals


def test_all_replicas_lost_restarts_from_the_checkpoint(tmp_path: Path) -> None:
    def lose_all(job: ThreadJob, replica: str) -> None:
        job.wait(lambda: bool(job.state.last_checkpoint))
        for name in list(job.runtimes):
            job.kill(name)

    probe = Probe().at(1, 8, "begin", lose_all)
    run = Elastic(full_loop, 2, probe, storage=str(tmp_path), config={"checkpoint": True}).finish()
    equal(run, EXPECTED)
    assert "restart" in [note.kind for note in run.job.notes]


def test_all_replicas_lost_without_a_checkpoint_start_over() -> None:
    def lose_all(job: ThreadJob, replica: str) -> None:
        for name in list(job.runtimes):
            job.kill(name)

    equal(Elastic(full_loop, 2, Probe().at(0, 8, "backward", lose_all)).finish(), EXPECTED)


def test_a_users_exception_may_be_answered_by_a_restart(tmp_path: Path) -> None:
    fired: list[int] = []

    def fails_once(job: ThreadJob, replica: str) -> None:
        fired.append(1)
        job.wait(lambda: bool(job.state.last_checkpoint))
        raise ValueError("flaky")

    probe = Probe().at(1, 7, "stepped", fails_once)
    bounds = Bounds(1, 4, max_user_errors=1)
    run = Elastic(full_loop, 2, probe, storage=str(tmp_path), bounds=bounds, config={"checkpoint": True}).finish()
    equal(run, EXPECTED)
    assert fired


def reporting_within_the_step(config: dict[str, Any]) -> None:
    """Two optimizers keep a step open until the next batch; a checkpoint is asked for in between."""
    api = config["api"]
    model = mlp()
    first = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
    second = torch.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9)
    model, first, second = api.prepare(model, first, second)
    for epoch in api.epochs(2):
        for number, (x, y) in enumerate(api.batches(DATA, global_batch_size=BATCH, shuffle=True, seed=1)):
            ((model(x) - y) ** 2).mean().backward()
            first.step()
            second.step()
            first.zero_grad()
            second.zero_grad()
            api.report({"epoch": epoch}, checkpoint=number == 2)
    config["run"].keep(api.get_context().get_world_rank(), model)


def test_a_checkpoint_asked_for_within_a_step_takes_nothing_back(tmp_path: Path) -> None:
    """It undid the update of rank 0, and of rank 0 only; it is written at the next boundary instead."""
    expected = plain(reporting_within_the_step)
    storage = str(tmp_path)
    equal(Elastic(reporting_within_the_step, 2, storage=storage).finish(), expected)
    store = CheckpointStore(storage)
    assert [c.meta.position.step for c in store.list()] == [3, 8]
    resumed = Elastic(reporting_within_the_step, 3, storage=storage)
    resumed.job.start(checkpoint=store.list()[0].path)
    equal(resumed.finish(), expected)


def other_model(config: dict[str, Any]) -> None:
    api = config["api"]
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 1)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    api.prepare(model, optimizer, scheduler)
    for x, y in api.batches(DATA, global_batch_size=BATCH):
        config["run"].finals[0] = [x]
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()


def fewer_objects(config: dict[str, Any]) -> None:
    api = config["api"]
    api.prepare(mlp())
    for x, _ in api.batches(DATA, global_batch_size=BATCH):
        config["run"].finals[0] = [x]


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        (other_model, "model0.0.weight has shape (8, 6), the model's has (9, 6)"),
        (fewer_objects, "but the loop prepared model0. Prepare the same objects in the same order"),
    ],
)
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_checkpoint_of_another_model_is_refused(loop: Any, message: str, replicas: int, tmp_path: Path) -> None:
    """Before the first batch, naming the tensor."""
    path = stopped_at(tmp_path, 3, 1)
    run = Elastic(loop, replicas, storage=str(tmp_path))
    run.job.start(checkpoint=path)
    run.finish("failed")
    assert "StateMismatch" in run.job.ended.error
    assert message in run.job.ended.error
    assert path in run.job.ended.error
    assert not run.finals


def test_nowhere_to_save_to_fails_the_request_not_the_job() -> None:
    run = Elastic(full_loop, 2, Probe().at(0, 5, "begin", ask(Checkpoint))).finish()
    equal(run, EXPECTED)
    assert "set RunConfig.storage_path" in next(iter(run.job.answers.values())).error


def test_a_halt_that_cannot_be_saved_is_called_off() -> None:
    run = Elastic(full_loop, 2, Probe().at(0, 5, "begin", ask(Suspend))).finish()
    equal(run, EXPECTED)
    assert "set RunConfig.storage_path" in next(iter(run.job.answers.values())).error


def test_checkpoints_at_intervals(tmp_path: Path) -> None:
    run = Elastic(full_loop, 2, storage=str(tmp_path), checkpoint_every_s=0.02).finish()
    equal(run, EXPECTED)
    assert len(CheckpointStore(str(tmp_path)).list()) >= 2
