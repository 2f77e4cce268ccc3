from __future__ import annotations

import io
import json

import pytest
from rich.console import Console, RenderableType

from raytide.cli import job_view
from raytide.cli.clock import clock, entry, length
from raytide.cli.owners import only
from raytide.errors import RequestRefused
from unit.cli.building import job_info, waiting

NOW = 1100.0


def text(shown: RenderableType, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(shown)
    return console.file.getvalue()


def test_running_jobs_show_where_they_are_and_waiting_ones_why_they_wait():
    shown = text(job_view.jobs_table([job_info(), waiting("gpt", 3, "needs 4 slots\nand more")], NOW))
    for part in (
        "2 of 1..4",
        "1,280",
        "node-a 2",
        "1m30s",
        "epoch 5, step 120",
        "pending #3",
        "needs 4 slots",
        "1m40s",
    ):
        assert part in shown
    assert "and more" not in shown
    assert "submit" in text(job_view.jobs_table([], NOW))


def test_a_rigid_job_has_one_size_and_an_ended_one_the_time_it_ran():
    shown = text(job_view.jobs_table([job_info(least=2, most=2, state="failed", ended_s=1025.0)], NOW))
    assert "2 of 2" in shown
    assert "15s" in shown


def test_declared_work_is_shown_as_a_share():
    assert job_view.progress(job_info(work=200.0, done=50.0)) == "25%, epoch 5, step 120"
    assert job_view.progress(job_info(work=10.0, done=50.0, step=0)) == "100%"


def test_everything_about_a_job():
    info = job_info(
        failures={"user": 2, "node": 0}, preemptible=False, kind="elastic", storage="/nfs/x", metrics={"loss": 0.5}
    )
    shown = text(job_view.job_table(info, NOW))
    for part in ("not preemptible", "2 by the user", "loss 0.5", "/nfs/x", "1m15s", "1 resizes", "elastic"):
        assert part in shown
    assert "node," not in shown
    assert "deadline" not in shown


def test_what_is_kept_of_a_job_that_is_over():
    kept = {"status": "succeeded", "checkpoint": "/nfs/x/step-9", "step": 9, "metrics": {"loss": 0.5}}
    assert job_view.result_text(json.dumps(kept)) == "loss 0.5, 9 steps, /nfs/x/step-9"
    assert job_view.result_text("") == job_view.result_text("{}") == ""


def test_the_story_has_clock_times_and_one_line_each():
    lines = [line.plain for line in job_view.story_lines(job_info(), NOW)]
    assert len(lines) == 2
    assert lines[0].startswith(clock(1000.0, NOW))
    assert lines[1].endswith("2 replicas")


def test_a_job_for_programs():
    document = json.loads(json.dumps(job_view.job_document(job_info())))
    assert document["nodes"] == [{"node": "node-a", "slots": 2}]
    assert document["story"][0] == {"time_s": 1000.0, "state": "pending", "why": "submitted"}
    assert document["ended"] is False


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0s"), (59.6, "1m"), (90, "1m30s"), (5400, "1h30m"), (90061, "1d1h"), (-3, "0s")]
)
def test_lengths(seconds: float, shown: str):
    assert length(seconds) == shown


def test_times_of_other_days_have_a_date():
    assert len(clock(NOW, NOW)) == 8
    assert len(clock(NOW, NOW + 10 * 86_400)) == 14


def test_a_strange_line_of_a_story_is_left_as_it_is():
    assert entry("what is this") == (0.0, "", "what is this")
    assert entry("3.5 s: failed: a: b\nc") == (3.5, "failed", "a: b\nc")


def test_the_only_job_is_meant_if_none_is_named():
    assert only([job_info("a")]) == "a"
    with pytest.raises(RequestRefused, match="submit"):
        only([])
    with pytest.raises(RequestRefused, match=r"9 jobs.*j0, .*j7, \.\.\."):
        only([job_info(f"j{i}") for i in range(9)])
