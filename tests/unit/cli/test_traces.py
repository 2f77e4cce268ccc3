from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raytide.cli.traces import EpochSamples, check_epochs, read_steps


def line(step: int, cursor: int, indices: list[int], **changes: Any) -> dict[str, Any]:
    values = {
        "time_s": 10.0 + step,
        "epoch": 0,
        "generation": 1,
        "rank": 0,
        "world_size": 1,
        "after": None,
        **changes,
    }
    after = values.pop("after")
    after = cursor + len(indices) * values["world_size"] if after is None else after
    return {"step": step, "cursor": cursor, "cursor_after": after, "indices": indices, **values}


def two(step: int, cursor: int, indices: list[int], **changes: Any) -> list[dict[str, Any]]:
    half = len(indices) // 2
    shares = (indices[:half], indices[half:])
    return [line(step, cursor, share, rank=r, world_size=2, **changes) for r, share in enumerate(shares)]


@pytest.fixture
def traced(tmp_path: Path):
    def write(*lines: dict[str, Any]) -> Path:
        for rank in {entry["rank"] for entry in lines}:
            text = "".join(json.dumps(entry) + "\n" for entry in lines if entry["rank"] == rank)
            (tmp_path / f"r{rank}.jsonl").write_text(text)
        return tmp_path

    return write


def exact(folder: Path, size: int = 6) -> list[EpochSamples]:
    return check_epochs(read_steps(folder), size)


def test_two_sizes_cover_an_epoch(traced):
    folder = traced(line(0, 0, [5, 3]), *two(1, 2, [1, 0, 2, 4]))
    assert exact(folder) == [EpochSamples(0, 6, True)]
    assert [(s.samples, s.world_size) for s in read_steps(folder)] == [(2, 1), (4, 2)]


def test_a_step_done_again_after_a_loss_counts_once(traced):
    lost = line(1, 2, [1, 0], rank=1, world_size=2)
    folder = traced(line(0, 0, [5, 3]), lost, line(1, 2, [1, 0, 2, 4], generation=3))
    assert exact(folder) == [EpochSamples(0, 6, True)]


def test_a_dead_ranks_line_may_be_missing(traced):
    folder = traced(line(0, 0, [5, 3]), two(1, 2, [1, 0, 2, 4])[0])
    assert exact(folder) == [EpochSamples(0, 6, True)]
    assert not read_steps(folder)[1].is_whole


@pytest.mark.parametrize(
    "second",
    [
        line(1, 3, [1, 0, 2]),  # a gap
        line(1, 1, [1, 0, 2, 4, 5]),  # an overlap
        line(1, 2, [1, 0, 2]),  # an end too early
        line(1, 2, [1, 0, 2, 3]),  # a sample twice
        line(1, 2, [1, 0, 2], after=6),  # a sample left out
    ],
)
def test_what_is_not_exact_is_found(traced, second: dict[str, Any]):
    assert [epoch.is_exact for epoch in exact(traced(line(0, 0, [5, 3]), second))] == [False]


def test_half_a_line_of_a_killed_replica_is_no_step(traced):
    folder = traced(line(0, 0, [5, 3, 1, 0, 2, 4]))
    with (folder / "r0.jsonl").open("a") as file:
        file.write('{"step": 1, "cur')
    assert exact(folder) == [EpochSamples(0, 6, True)]


def test_no_traces(tmp_path: Path):
    assert exact(tmp_path) == []
