"""The scheduler's loop with masters that do as they are told: what is written, said, retried and forgotten."""

from __future__ import annotations

import threading

import pytest

from raytide.actors.status import JobStatus
from raytide.core.events import (
    BoundsChanged,
    CancelRequested,
    Finished,
    NodeJoined,
    NodeLost,
    Resized,
    ResumeRequested,
    SuspendRequested,
    Timer,
)
from raytide.errors import RaytideError
from raytide.policies.fifo import Fifo
from raytide.policies.tide import Tide
from support.engine import Desk, new_job
from support.scheduling import job, nodes


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, Fifo(), nodes(2, 2))


def test_a_job_is_in_the_store_before_its_master_is_told(desk):
    seen = []
    start = desk.masters.start
    desk.masters.start = lambda *call: (seen.append(desk.store.job("a").past.state), start(*call))
    desk.submit(job("a", 2))
    desk.until_state("running", "a")
    assert seen == ["starting"]
    assert sum(desk.masters.holds["a"].values()) == 2


def test_a_submission_said_twice_is_one_job(desk):
    first = desk.engine.submit(new_job(job("a"), "key"))
    again = desk.engine.submit(new_job(job("a"), "key"))
    desk.round()
    later = desk.engine.submit(new_job(job("a"), "key"))
    desk.round()
    assert [done.result(0) for done in (first, again, later)] == [None] * 3
    assert list(desk.controller.table.all) == ["a"]


def test_a_name_that_was_used_is_refused_and_concerns_nobody_else(desk):
    desk.submit(job("a"))
    taken, other = desk.engine.submit(new_job(job("a"), "other")), desk.engine.submit(new_job(job("b")))
    desk.round()
    with pytest.raises(RaytideError, match="there was a job 'a'"):
        taken.result(0)
    assert other.result(0) is None


def test_an_impossible_job_is_refused_with_the_reason(desk):
    desk.submit(job("big", 9))
    assert desk.store.job("big").past.state == "refused"
    assert "needs at least 9 GPUs" in desk.store.job("big").past.reason


def test_the_end_of_a_job_is_written_and_starts_the_next_one(desk):
    desk.submit(job("a", 4), job("b", 4))
    desk.until_state("running", "a")
    assert desk.state("b") == "pending"
    desk.engine.status(JobStatus("a", "running", world_size=4, samples_per_s=9.0, done=50.0))
    desk.ends("a")
    desk.until_state("running", "b")
    row = desk.store.job("a")
    assert (row.past.state, row.past.measured[0][1], row.error) == ("succeeded", 9.0, "")
    desk.until(lambda: desk.masters.named("forget") == ["a"], "forgotten")


def test_a_job_that_failed_keeps_its_error(desk):
    desk.submit(job("a"))
    desk.until_state("running", "a")
    desk.ends("a", "failed", "rank 0 raised")
    assert (desk.store.job("a").past.state, desk.store.job("a").error) == ("failed", "rank 0 raised")


def test_faults_of_the_platform_are_retried_so_often(desk):
    desk.masters.refuse["start", "a"] = "slots are not free"
    done = desk.engine.submit(new_job(job("a"), platform_faults=2))
    desk.until(done.done, "written")
    desk.until_state("failed", "a")
    row = desk.store.job("a")
    assert row.failures == {"platform": 3}
    assert row.error == "given up after 3 faults of the platform: slots are not free"


def test_a_resize_that_is_refused_leaves_the_job_as_it_was(desk):
    desk.masters.refuse["scale", "a"] = "newcomer died"
    desk.submit(job("a", 1, to=4))
    desk.until_state("running", "a")
    desk.engine.tell(BoundsChanged("a", 3, 3, preemptible=True))
    desk.until_state("resizing", "a")
    desk.until_state("running", "a")
    assert desk.controller.table["a"].gpus == 1


def test_owners_suspend_resume_and_cancel(desk):
    desk.submit(job("a", 2), job("waits", 4))
    desk.until_state("running", "a")
    desk.engine.tell(SuspendRequested("a"))
    desk.until_state("suspended", "a")
    desk.until_state("running", "waits")
    desk.engine.tell(ResumeRequested("a"))
    desk.ends("waits")
    desk.until_state("running", "a")
    desk.engine.tell(CancelRequested("a"))
    desk.until(lambda: desk.masters.named("stop") == ["a"], "told to stop")
    desk.ends("a", "stopped")
    assert desk.state("a") == "cancelled"


def test_a_job_that_cannot_be_saved_trains_on(desk):
    desk.masters.refuse["suspend", "a"] = "disk is full"
    desk.submit(job("a", 2))
    desk.until_state("running", "a")
    desk.engine.tell(SuspendRequested("a"))
    desk.until_state("suspending", "a")
    desk.until_state("running", "a")
    assert "disk is full" in desk.controller.table["a"].reason


def test_a_slow_job_holds_up_nobody(desk):
    blocked = desk.masters.block["start", "slow"] = threading.Event()
    desk.submit(job("slow", 2), job("fast", 2))
    desk.until_state("running", "fast")
    assert desk.state("slow") == "starting"
    desk.ends("fast")
    blocked.set()
    desk.until_state("running", "slow")


def test_a_lost_node_queues_the_job_again_and_a_smaller_one_goes_on(tmp_path):
    desk = Desk(tmp_path, Tide(), nodes(2, 2))
    desk.submit(job("elastic", 1, to=4))
    desk.until(lambda: desk.masters.holds.get("elastic") == {"n0": 2, "n1": 2}, "on both nodes")
    desk.until_state("running", "elastic")
    desk.engine.tell(NodeLost("n1"))
    desk.until(lambda: desk.masters.holds["elastic"] == {"n0": 2}, "on the node that is left")
    desk.submit(job("gang", 2))
    desk.until_state("running", "gang")


def test_orphans_are_those_whose_lease_ran_out(desk):
    written = [desk.engine.submit(new_job(job(name), lease_s=lease)) for name, lease in (("a", 5.0), ("b", 0.0))]
    desk.until(lambda: all(done.done() for done in written), "written")
    page = desk.engine.book.pages["a"]
    assert desk.engine.book.orphans(page.owner_seen_s + 4.0) == []
    assert desk.engine.book.orphans(page.owner_seen_s + 6.0) == ["a"]


def test_news_of_what_is_not_there_is_left_out(desk):
    stray = [CancelRequested("ghost"), NodeLost("n9"), SuspendRequested("ghost"), NodeJoined(nodes(2)[0])]
    desk.submit(job("a"))
    assert desk.engine.tell(*stray, Timer()).done() is False
    desk.round()
    desk.until_state("running", "a")
    desk.ends("a")
    desk.engine.tell(Finished("a"), Resized("a"))
    desk.round()
    assert desk.state("a") == "succeeded"


def test_how_many_processes_train_is_what_the_master_last_told(desk):
    desk.submit(job("a", 2))
    desk.until_state("running", "a")
    assert desk.engine.book.size_of("a") == 0
    desk.engine.status(JobStatus("a", "running", world_size=2))
    desk.round()
    assert (desk.engine.book.size_of("a"), desk.engine.book.size_of("ghost")) == (2, 0)
