from __future__ import annotations

import io
import json

import pandas as pd
import pytest
from rich.console import Console, RenderableType

from raytide.cli import render
from raytide.cli.cluster import only_job
from raytide.cli.moments import moments
from raytide.errors import RequestRefused
from raytide.train import Checkpoint, Result
from raytide.train.result import RequestCost
from unit.cli.building import event, view

NAMES = {"aaaaaaaaaaaa": "node-a"}
COST = RequestCost(3, 4, 0.012, 0.01, 471448, 2.5, 3.0, "/store/step-10")


def text(shown: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(shown)
    return console.file.getvalue()


def test_jobs():
    shown = text(render.jobs_table([view(), view("gpt", phase="suspended", world_size=0)]))
    assert "2 of 1..4" in shown
    assert "loss 0.1235  accuracy 0.99" in shown
    assert "suspended" in shown
    assert "no job" in text(render.jobs_table([]))


def test_members_show_nodes_by_name_and_newcomers_as_starting():
    lines = text(render.members_table(view().members, NAMES)).splitlines()
    assert "node-a" in lines[2]
    assert "4711" in lines[2]
    assert "40 ms" in lines[2]
    assert "starting" in lines[3]
    assert "bbbbbbbb" in lines[3], "an unknown node is shown by its id"


def test_a_view_for_programs():
    document = json.loads(json.dumps(render.view_document(view(events=(event("x"),)), NAMES)))
    assert document["members"][0] | {"node": "node-a", "node_id": "aaaaaaaaaaaa"} == document["members"][0]
    assert "events" not in document


def test_footer_tells_why_a_job_failed():
    assert "none yet" in text(render.job_footer(view(checkpoint="")))
    assert "out of [memory]" in text(render.job_footer(view(error="out of [memory]")))


def test_costs():
    shown = text(render.cost_text("scaled", COST))
    for part in (
        "3 replicas",
        "pause 12 ms",
        "471.4 KB moved in 10 ms",
        "prepared for 2.5 s",
        "/store/step-10",
    ):
        assert part in shown


def test_profile():
    rows = [{"world_size": 2, "step_s": 0.05, "samples_per_s": 2000.0, "steps": 40}]
    assert [cell for cell in text(render.profile_table(rows)).splitlines()[2].split("  ") if cell.strip()] == [
        "2",
        "50 ms",
        "2,000",
        "1,000",
        "40",
    ] or "1,000" in text(render.profile_table(rows))


def test_results():
    resizes = pd.DataFrame({"time_s": [0.0, 2.0], "world_size": [1, 2]})
    result = Result("d", "succeeded", {"loss": 0.1}, pd.DataFrame(), Checkpoint("/c"), resizes, pd.DataFrame())
    document = json.loads(json.dumps(render.result_document(result)))
    assert (document["resizes"], document["checkpoint"], document["status"]) == (1, "/c", "succeeded")
    assert "resizes: 1\ncheckpoint: /c" in text(render.result_text(result))


def test_a_story_as_a_table(log):
    shown = text(render.moments_table(moments(log)))
    assert "grow 1 → 3" in shown
    assert "134 ms" in shown
    assert "0.30 s" in shown


def test_the_only_running_job_need_not_be_named():
    assert only_job([view("a", phase="succeeded"), view("b")]) == "b"
    assert only_job([view("a", phase="succeeded")]) == "a"
    with pytest.raises(RequestRefused, match="a, b"):
        only_job([view("a"), view("b")])
    with pytest.raises(RequestRefused, match="raytide run"):
        only_job([])
