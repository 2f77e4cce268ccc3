"""A tiny application, written as tables: two epochs at batches 8 and 32, every figure easy to check by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from raytide.sim.pollux import Application, load_application

PLACEMENTS = {"1": (1.0, 0.0), "2": (2.0, 1.0), "11": (3.0, 2.0), "12": (4.0, 2.0), "112": (6.0, 3.0)}
VALIDATION = {
    8: ["100,100,0,1,3", "300,300,0,3,1"],
    32: ["90,40,0,1,3", "320,120,0,1,3"],
}


def placement_rows() -> list[str]:
    """Step times rise by the sample: 1.4 s at four samples on one GPU, 1.8 s at eight."""
    return [f"{name},{b},{step + b / 10},{sync}" for name, (step, sync) in PLACEMENTS.items() for b in (4, 8)]


def write(path: Path, header: str, rows: list[str]) -> None:
    path.write_text("\n".join([header, *rows]) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tables of application ``tiny``, to be spoiled by a test."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    write(folder / "placements.csv", "placement,local_bsz,step_time,sync_time", placement_rows())
    spread = [f"{n},{n},{b},{n + b / 10},{n / 2}" for n in (6, 16) for b in (4, 8)]
    write(folder / "scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time", spread)
    for batch, rows in VALIDATION.items():
        write(folder / f"validation-{batch}.csv", "progress,iteration,metric,grad_sqr,grad_var", rows)
    return folder


@pytest.fixture
def app(folder: Path) -> Application:
    return load_application(folder)
