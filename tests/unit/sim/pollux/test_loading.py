"""Tables become applications, or an error that names file and column."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from raytide.errors import RaytideError
from raytide.sim.pollux import Limits, TableError, load_application, load_applications


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_limits_come_from_the_tables(folder: Path) -> None:
    assert load_application(folder).limits == Limits(8, 32, 4, 8, epochs=2)


def test_applications_are_named_after_their_folders(folder: Path) -> None:
    (folder.parent / "README.txt").write_text("not an application")
    folder.rename(folder.parent / "b")
    (folder.parent / "a").symlink_to(folder.parent / "b")
    applications = load_applications(str(folder.parent))
    assert [(name, app.name) for name, app in applications.items()] == [("a", "a"), ("b", "b")]


def test_yolov3_is_never_run_with_more_than_eight_samples(folder: Path) -> None:
    spoil(folder / "placements.csv", "1,8,", "1,16,")
    yolo = folder.rename(folder.parent / "yolov3")
    assert load_application(yolo).limits.max_local == 8


def test_rows_may_come_in_any_order(folder: Path) -> None:
    path = folder / "placements.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *reversed(rows)]))
    assert load_application(folder).step_times.at((1,), 6) == pytest.approx((1.6, 0.0))


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_a_folder_without_applications_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TableError, match=f"{name}: is no folder with a folder for each application"):
        load_applications(tmp_path / name)


@pytest.mark.parametrize("name", ["placements.csv", "scalability.csv"])
def test_a_missing_table_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(TableError, match=rf"{name}: cannot be read \(No such file"):
        load_application(folder)


def test_missing_validation_is_named(folder: Path) -> None:
    for path in folder.glob("validation-*.csv"):
        path.rename(path.with_name("other-" + path.name))
    with pytest.raises(TableError, match=r"tiny: has no validation-<batch>\.csv"):
        load_application(folder)
    with pytest.raises(TableError, match="gone: has no validation"):
        load_application(folder.parent / "gone")


@pytest.mark.parametrize(
    ("name", "old", "new", "column", "problem"),
    [
        (
            "placements.csv",
            "sync_time",
            "sync",
            "sync_time",
            "is missing; there are: placement, local_bsz, step_time, sync",
        ),
        ("placements.csv", "1,4,1.4", "1,4,fast", "step_time", "line 2 is 'fast', not a number"),
        ("placements.csv", "1,4,1.4", "1,4,nan", "step_time", "line 2 is 'nan', not a finite number"),
        ("placements.csv", "1,4,1.4", "1,4,0", "step_time", "line 2 is '0', must be positive"),
        ("placements.csv", "1,8,1.8,0.0", "1,8,1.8,-1", "sync_time", "line 3 is '-1', must be zero or more"),
        ("placements.csv", "1,4,1.4", "1,4.5,1.4", "local_bsz", "line 2 is '4.5', not a whole number"),
        ("placements.csv", "1,4,1.4", "1,8,1.4", "local_bsz", "placement 1 has a batch twice"),
        (
            "placements.csv",
            "1,4,1.4",
            "1-1,4,1.4",
            "placement",
            "line 2 is '1-1', not a digit from 1 to 9 for each node",
        ),
        ("scalability.csv", "6,6,4", "6,many,4", "num_replicas", "line 2 is 'many', not a number"),
        ("validation-8.csv", "300,300", "100,300", "progress", "line 3 is '100', not more than the row before"),
        ("validation-8.csv", "300,300", "300,100", "iteration", "line 3 is '100', not more than the row before"),
        ("validation-32.csv", "90,40,0,1,3", "90,40,0,1,0", "grad_var", "line 2 is '0', must be positive"),
    ],
)
def test_a_malformed_column_is_named(folder: Path, name: str, old: str, new: str, column: str, problem: str) -> None:
    spoil(folder / name, old, new)
    with pytest.raises(TableError) as caught:
        load_application(folder)
    assert (caught.value.path, caught.value.column, caught.value.problem) == (folder / name, column, problem)
    assert str(caught.value) == f"{folder / name}, column '{column}': {problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no rows"),
        ("progress,iteration\n", "has no rows"),
        ("progress,iteration\n1,1\n2\n", "line 3 has 1 cells, the header 2"),
        ("progress,iteration,grad_sqr,grad_var\n1,1,1,1\n", "has 1 epochs, validation-8.csv has 2"),
        (b"\xff\xfe", "cannot be read .*decode"),
    ],
)
def test_a_malformed_file_is_named(folder: Path, text: str | bytes, problem: str) -> None:
    (folder / "validation-32.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TableError, match=rf"validation-32\.csv: {problem}"):
        load_application(folder)


def test_errors_are_raytides_and_pickle() -> None:
    error = TableError(Path("a.csv"), "b", "is missing")
    assert isinstance(error, RaytideError)
    assert isinstance(error, ValueError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
