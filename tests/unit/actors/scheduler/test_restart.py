"""A scheduler that dies at any moment, and the one that goes on from the store."""

from __future__ import annotations

import pytest

from raytide.core.events import CancelRequested, SuspendRequested
from raytide.policies.fifo import Fifo
from raytide.policies.tide import Tide
from raytide.state import Superseded
from support.engine import Desk
from support.scheduling import job, nodes

CLUSTER = nodes(2, 2)


def restarted(desk, folder, policy=Fifo, cluster=CLUSTER):
    """Another scheduler on the same store, beside jobs that went on."""
    return Desk(folder, policy(), cluster, desk.masters)


def test_running_jobs_are_kept_and_waiting_ones_wait_on(tmp_path):
    before = Desk(tmp_path, Fifo(), CLUSTER)
    before.submit(job("a", 4), job("b", 1), job("c", 1))
    before.until_state("running", "a")
    after = restarted(before, tmp_path)
    assert after.masters.named("start") == ["a"]
    assert [after.state(name) for name in "abc"] == ["running", "pending", "pending"]
    after.until(lambda: after.masters.named("ask") == ["a"], "asked")
    after.ends("a")
    after.until_state("running", "b", "c")
    assert after.masters.named("start") == ["a", "b", "c"]


def test_a_start_that_was_written_and_not_said_is_said_once(tmp_path):
    before = Desk(tmp_path, Fifo(), CLUSTER)
    before.engine._dispatcher.carry_out = lambda *command: None  # killed between the two
    before.submit(job("a", 2))
    after = restarted(before, tmp_path)
    after.until_state("running", "a")
    assert after.masters.named("start") == ["a"]


@pytest.mark.parametrize("event", [SuspendRequested, CancelRequested])
def test_what_was_going_on_is_said_again_under_its_id(tmp_path, event):
    before = Desk(tmp_path, Fifo(), CLUSTER)
    before.submit(job("a", 2))
    before.until_state("running", "a")
    before.engine._dispatcher.carry_out = lambda *command: None
    before.engine.tell(event("a"))
    before.round()
    after = restarted(before, tmp_path)
    what = "suspend" if event is SuspendRequested else "stop"
    after.until(lambda: after.masters.named(what) == ["a"], what)
    request = before.store.job("a").request
    assert (what, "a", request) in after.masters.calls


def test_a_resize_goes_on_where_it_was(tmp_path):
    before = Desk(tmp_path, Tide(), CLUSTER)
    before.submit(job("a", 1, to=4))
    before.until(lambda: before.controller.table["a"].gpus == 4, "grown")
    before.until_state("running", "a")
    before.engine._dispatcher.carry_out = lambda *command: None
    before.submit(job("b", 1))
    before.until_state("resizing", "a")
    after = restarted(before, tmp_path, Tide)
    after.until_state("running", "a", "b")
    assert sum(map(sum, (grant.values() for grant in after.masters.holds.values()))) <= 4
    after.controller.validate()


def test_a_job_whose_master_is_gone_starts_again(tmp_path):
    before = Desk(tmp_path, Fifo(), CLUSTER)
    before.submit(job("a", 2))
    before.until_state("running", "a")
    before.masters.holds.clear()
    after = restarted(before, tmp_path)
    after.until(lambda: after.masters.named("start") == ["a", "a"], "started again")
    after.until_state("running", "a")


def test_a_node_that_went_meanwhile_is_lost(tmp_path):
    before = Desk(tmp_path, Fifo(), CLUSTER)
    before.submit(job("a", 4))
    before.until_state("running", "a")
    after = restarted(before, tmp_path, cluster=nodes(2))
    assert after.state("a") == "pending"
    assert "lost node n1" in after.controller.table["a"].reason


def test_attained_service_and_measurements_survive(tmp_path):
    before = Desk(tmp_path, Fifo(), CLUSTER)
    before.submit(job("a", 4))
    before.until_state("running", "a")
    for _ in range(10):
        before.round()
    held = before.controller.table["a"].attained_gpu_s(before.now)
    after = restarted(before, tmp_path)
    after.now = before.now
    after.round()
    assert after.controller.table["a"].attained_gpu_s(after.now) == pytest.approx(held + 4.0)


def test_of_two_schedulers_the_older_one_writes_nothing_any_more(tmp_path):
    before = Desk(tmp_path, Fifo(), CLUSTER)
    restarted(before, tmp_path)
    with pytest.raises(Superseded):
        before.submit(job("late"))


def test_a_job_that_rests_goes_on_resting(tmp_path):
    before = Desk(tmp_path, Fifo(), CLUSTER)
    before.submit(job("a", 2))
    before.until_state("running", "a")
    before.engine.tell(SuspendRequested("a"))
    before.until_state("suspended", "a")
    after = restarted(before, tmp_path)
    for _ in range(3):
        after.round()
    assert after.state("a") == "suspended"
    assert after.controller.table["a"].held
