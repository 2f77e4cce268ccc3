from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from raytide.actors.scheduler.info import PlatformInfo
from raytide.cli import grid
from raytide.cli.nodes import nodes_table
from raytide.cli.platform_document import platform_document
from raytide.cli.top_view import frame
from unit.cli.building import job_info, platform_info, waiting

NOW = 1100.0
WHY = "needs 4 slots and 2 are free; tenant vision has 7 of its limit of 8, and more that does not fit"


def lines(info: PlatformInfo, width: int = 100, height: int = 30) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(frame(info, NOW, width, height))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def busy() -> PlatformInfo:
    jobs = [
        job_info("resnet", gpus=3, nodes=(("node-a", 2), ("node-b", 1))),
        waiting("vgg", 1, WHY),
        job_info("bert", tenant="language", nodes=(("node-b", 2),)),
        waiting("gpt", 0, "on request", state="suspended"),
    ]
    return platform_info(jobs)


def test_a_frame():
    shown = lines(busy())
    assert "tide/pack" in shown[0]
    assert "5 of 8 (62%)" in shown[0]
    assert "running 2" in shown[0]
    assert shown[2] == "node-a 2/4  A  A  ·  ·"
    assert shown[3] == "node-b 3/4  A  B  B  ·"
    assert "language 2" in shown[4]
    assert "vision 3" in shown[4]
    assert any(line.startswith("A resnet") for line in shown)
    assert any(line.startswith("B bert") for line in shown)
    queue = next(place for place, line in enumerate(shown) if line.startswith("# waiting"))
    assert shown[queue + 1].startswith("1 vgg")
    assert "needs 4 slots and 2 are free" in shown[queue + 1]
    assert "suspended: on request" in shown[queue + 2]


def test_nodes_that_drain_and_slots_of_others():
    info = busy()
    nodes = (replace(info.nodes[0], taken=1), replace(info.nodes[1], open=False))
    shown = lines(replace(info, nodes=nodes))
    assert shown[2] == "node-a 2/4  A  A  ░  ·"
    assert shown[3] == "node-b 3/4  A  B  B  -"


@pytest.mark.parametrize(("running", "waits", "nodes"), [(0, 0, 0), (1, 40, 2), (40, 1, 64), (40, 40, 64), (3, 3, 4)])
@pytest.mark.parametrize("height", [24, 30, 60])
def test_a_frame_fits_into_the_terminal(running: int, waits: int, nodes: int, height: int):
    jobs = [job_info(f"job-{i}", nodes=((f"n{i}", 2),)) for i in range(running)]
    queue = [waiting(f"waiting-{i}", i + 1, WHY) for i in range(waits)]
    info = platform_info([*jobs, *queue], slots=8, names=[f"n{i}" for i in range(nodes)])
    shown = lines(info, height=height)
    assert len(shown) <= height
    assert max(len(line) for line in shown) <= 100


def test_letters_go_on_after_z():
    keys = grid.job_keys([job_info(f"j{i}") for i in range(28)])
    assert [keys["j0"], keys["j25"], keys["j26"], keys["j27"]] == ["A", "Z", "AA", "AB"]


def test_tenants_have_colours_of_their_own():
    info = platform_info([job_info(f"j{i}", tenant=f"t{i}") for i in range(len(grid.COLOURS))])
    assert len(set(grid.tenant_colours(info).values())) == len(grid.COLOURS)


def test_nodes():
    console = Console(file=io.StringIO(), width=120)
    info = busy()
    console.print(nodes_table([*info.nodes[:1], replace(info.nodes[1], open=False)]))
    shown = console.file.getvalue()
    for part in ("node-a", "open", "draining", "resnet 1, bert 2"):
        assert part in shown


def test_the_platform_for_programs():
    document = json.loads(json.dumps(platform_document(busy())))
    assert document["slot"] == {"CPU": 1.0}
    assert document["nodes"][1]["held"] == [{"job": "resnet", "slots": 1}, {"job": "bert", "slots": 2}]
    assert [job["position"] for job in document["jobs"]] == [0, 1, 0, 0]
