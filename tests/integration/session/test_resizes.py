"""Jobs change their size at every place: results equal those of a fixed size, each sample used once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from raytide.elastic.messages import Resize
from raytide.elastic.model import Bounds
from support.plain_loops import BATCH, DATA, Elastic, equal, full_loop, mlp, plain, positions
from support.threads import Action, Probe, ThreadJob, fall_behind, grow, migrate, shrink

EXPECTED = plain(full_loop)


@pytest.mark.parametrize("step", [0, 3, 4, 5])
@pytest.mark.parametrize(
    ("start", "action", "sizes"),
    [(1, grow(2), [1, 3]), (3, shrink(0, 2), [3, 1]), (2, migrate(0), [2, 2])],
    ids=["grow", "shrink", "migrate"],
)
def test_resize_around_an_epoch(start: int, action: Action, sizes: list[int], step: int, tmp_path: Path) -> None:
    """In the first step, and in the last ones of an epoch, so that the switch falls on, before and behind its end."""
    run = Elastic(full_loop, start, Probe().at(0, step, "begin", action), trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert run.job.world_sizes == sizes
    assert all(not a.error for a in run.job.answers.values())


@pytest.mark.parametrize("place", ["backward", "stepped", "validation", "in validation", "reported"])
@pytest.mark.parametrize("action", [grow(1), shrink(0), migrate(1)], ids=["grow", "shrink", "migrate"])
def test_resize_asked_for_anywhere(place: str, action: Action, tmp_path: Path) -> None:
    run = Elastic(full_loop, 2, Probe().at(0, 4, place, action), trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert len(run.job.world_sizes) == 2


@pytest.mark.parametrize("kind", ["grow", "shrink"])
@pytest.mark.parametrize(
    ("step", "place"), [(12, "begin"), (13, "begin"), (14, "begin"), (14, "reported"), (14, "finished")]
)
def test_resize_at_the_very_end(step: int, place: str, kind: str, tmp_path: Path) -> None:
    """Too late for a switch: the job ends as it is, and the request is answered."""
    asked: list[str] = []

    def ask(job: ThreadJob, replica: str) -> None:
        slots, members = (job.slots(1), ()) if kind == "grow" else ((), (job.member(1),))
        asked.append(job.post(lambda q: Resize(q, add=slots, remove=members)))

    run = Elastic(full_loop, 2, Probe().at(0, step, place, ask), trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert asked[0] in run.job.answers


def test_rehearsal_that_lasts_epochs(tmp_path: Path) -> None:
    """The newcomer was told of an epoch long gone; it joins where the job is."""
    probe = Probe().at(0, 1, "begin", lambda job, _: job.post(lambda q: Resize(q, add=job.slots(1))))
    probe.at(0, 12, "begin", lambda job, _: job.wait_world(2))
    run = Elastic(full_loop, 1, probe, trace=str(tmp_path), start_delay_s=0.5)
    # Steps that wait until the newcomer has started, spread over two epochs.
    for step in range(3, 11):
        probe.at(0, step, "end", lambda job, _: threading.Event().wait(0.08))
    run.finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert run.job.world_sizes == [1, 2]


def test_replace_all_members_in_one_request(tmp_path: Path) -> None:
    def replace(job: ThreadJob, replica: str) -> None:
        job.resize(add=2, remove=(job.member(0), job.member(1)))

    run = Elastic(full_loop, 2, Probe().at(1, 5, "begin", replace), trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert run.job.state.active is not None
    assert set(run.job.state.active.members) == {"r2", "r3"}


def test_several_requests_at_once(tmp_path: Path) -> None:
    """Merged or queued, never lost."""
    names: list[str] = []

    def ask(job: ThreadJob, replica: str) -> None:
        names.append(job.resize(add=2))
        names.append(job.post(lambda q: Resize(q, remove=(job.member(0),))))
        names.append(job.post(lambda q: Resize(q, add=job.slots(1))))

    probe = Probe().at(0, 2, "begin", ask).at(0, 9, "begin", lambda job, _: job.wait_world(4))
    run = Elastic(full_loop, 2, probe, trace=str(tmp_path), config={"epochs": 5}).finish()
    equal(run, plain(full_loop, epochs=5))
    positions(tmp_path, epochs=5)
    assert set(names) <= set(run.job.answers)
    assert not any(run.job.answers[name].error for name in names)
    assert run.job.world_sizes[-1] == 4


def test_down_to_one_and_back_repeatedly(tmp_path: Path) -> None:
    probe = Probe()
    for step in range(0, 20, 4):
        probe.at(0, step, "begin", shrink(1) if step % 8 == 0 else grow(1))
    run = Elastic(full_loop, 2, probe, trace=str(tmp_path), config={"epochs": 5}).finish()
    equal(run, plain(full_loop, epochs=5))
    positions(tmp_path, epochs=5)
    assert run.job.world_sizes == [2, 1, 2, 1, 2, 1]


def test_resize_and_kill_together(tmp_path: Path) -> None:
    """A member dies while the switch is agreed, but not yet made."""
    probe = Probe().at(0, 3, "begin", grow(2)).kill(1, 4, "backward")
    run = Elastic(full_loop, 2, probe, trace=str(tmp_path)).finish()
    equal(run, EXPECTED)
    positions(tmp_path)


@pytest.mark.parametrize("role", ["source", "newcomer"])
def test_kill_during_the_transfer(role: str, tmp_path: Path) -> None:
    """The old members go on; nothing is lost."""
    probe = Probe().at(0, 3, "begin", grow(1))
    run = Elastic(full_loop, 2, probe, trace=str(tmp_path))
    fired: list[str] = []

    def wound(job: ThreadJob) -> None:
        """The first transfer of a planned generation ends the process on one of its sides."""
        job.wait(lambda: "r2" in job.runtimes)
        replica = "r0" if role == "source" else "r2"
        carrier = job.runtimes[replica].session.standing.carrier
        name = "send" if role == "source" else "receive"
        inner = getattr(carrier, name)

        def dies(group: Any) -> Any:
            if not fired:
                fired.append(replica)
                job.kill(replica)
            return inner(group)

        setattr(carrier, name, dies)

    probe.at(1, 2, "begin", lambda job, _: threading.Thread(target=wound, args=(job,), daemon=True).start())
    run.finish()
    assert fired
    equal(run, EXPECTED)
    positions(tmp_path)


def test_below_the_minimum_the_job_pauses_until_newcomers_come(tmp_path: Path) -> None:
    probe = Probe().kill(1, 6, "backward")
    run = Elastic(full_loop, 2, probe, trace=str(tmp_path), bounds=Bounds(2, 4), start_delay_s=0.3).finish()
    equal(run, EXPECTED)
    positions(tmp_path)
    assert [n.data["paused"] for n in run.job.notes if n.kind == "generation"] == [False, True, False]


def test_a_loop_without_epochs(tmp_path: Path) -> None:
    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model = mlp()
        model, optimizer = api.prepare(model, torch.optim.Adam(model.parameters(), lr=0.05))
        context = api.get_context()
        while context.step < 15:
            for x, y in api.batches(DATA, global_batch_size=BATCH, seed=1):
                probe("begin")
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
        config["run"].keep(context.get_world_rank(), model)

    probe = Probe().at(0, 2, "begin", grow(2)).kill(1, 8, "begin").at(0, 11, "begin", shrink(0))
    run = Elastic(loop, 1, probe, trace=str(tmp_path)).finish()
    equal(run, plain(loop))
    positions(tmp_path)


def test_loss_is_defined_inside_the_batches_loop_only() -> None:
    """A newcomer's rehearsal runs every loop body once; what follows may use its variables."""

    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH):
                probe("begin")
                loss = ((model(x) - y) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            for x, _ in api.batches(DATA, global_batch_size=BATCH, train=False):
                seen = len(x)
            api.report({"loss": loss.item(), "seen": seen})
        config["run"].keep(api.get_context().get_world_rank(), model)

    probe = Probe().at(0, 3, "begin", grow(1)).kill(1, 11, "begin")
    equal(Elastic(loop, 1, probe).finish(), plain(loop))


@pytest.mark.parametrize("max_local_batch", [3, 5])
def test_validation_every_n_steps_and_micro_batches(max_local_batch: int) -> None:
    def loop(config: dict[str, Any]) -> None:
        api, probe = config["api"], config["probe"]
        model, optimizer = api.prepare(model := mlp(), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        context = api.get_context()
        for _ in api.epochs(3):
            for x, y in api.batches(DATA, global_batch_size=BATCH, max_local_batch=max_local_batch):
                probe("begin")
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                if context.ends_step:
                    probe("step")
                optimizer.step()
                if context.ends_step and context.step % 2 == 0:
                    probe("validation")
                    seen = sum(len(v) for v, _ in api.batches(DATA, global_batch_size=BATCH, train=False))
                    total = context.all_reduce([float(seen)])[0]
                    assert context.rehearsing or total == 50.0
        config["run"].keep(context.get_world_rank(), model)

    expected = plain(lambda config: loop({**config}))
    probe = Probe().at(0, 2, "begin", grow(2)).kill(1, 7, "validation").at(0, 9, "validation", shrink(0))
    equal(Elastic(loop, 1, probe).finish(), expected)
    equal(Elastic(loop, 3, Probe().at(1, 7, "step", fall_behind(2))).finish(), expected)
