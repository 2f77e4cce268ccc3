"""Loading applications from the public data of Pollux, where the user keeps it.

A folder per application holds ``placements.csv``, ``scalability.csv`` and ``validation-<batch>.csv``.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from raytide.sim.pollux.application import Application, Limits, Validation
from raytide.sim.pollux.step_time import Placement, StepTimes
from raytide.sim.pollux.tables import FloatArray, Table, TableError, read_table

MAX_LOCAL = {"yolov3": 8}
"""Applications that Pollux's simulator does not run with every local batch that was measured (OSDI'21)."""

_VALIDATION_FILE = re.compile(r"validation-([1-9]\d*)\.csv")


def load_applications(folder: Path | str) -> dict[str, Application]:
    """Load every application below ``folder``, by name, in alphabetical order.

    Args:
        folder: ``simulator/traces`` of Pollux's artefact; each folder in it is an application.

    Raises:
        TableError: There is no application, or one of its tables is missing or malformed.
    """
    root = Path(folder)
    folders = sorted(entry for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []
    if not folders:
        raise TableError(root, None, "is no folder with a folder for each application")
    return {entry.name: load_application(entry) for entry in folders}


def load_application(folder: Path | str) -> Application:
    """Load one application, named after its ``folder``.

    Raises:
        TableError: One of its tables is missing or malformed.
    """
    folder = Path(folder)
    validation = _validation(folder)
    measured = _measured(read_table(folder / "placements.csv"))
    step_times = StepTimes(measured, _spread(read_table(folder / "scalability.csv")))
    return Application(folder.name, _limits(folder, validation, measured), validation, step_times)


def _limits(folder: Path, validation: Validation, measured: dict[Placement, FloatArray]) -> Limits:
    locals_ = np.concatenate([rows[:, 0] for rows in measured.values()])
    return Limits(
        smallest_batch=validation.batches[0],
        largest_batch=validation.batches[-1],
        min_local=int(locals_.min()),
        max_local=MAX_LOCAL.get(folder.name, int(locals_.max())),
        epochs=len(validation.progress),
    )


def _validation(folder: Path) -> Validation:
    tables = _validation_tables(folder)
    if not tables:
        raise TableError(folder, None, "has no validation-<batch>.csv")
    batches = sorted(tables)
    ordered = [tables[batch] for batch in batches]
    _check_epochs(ordered)
    return Validation(
        tuple(batches),
        progress=np.column_stack([_rising(table, "progress") for table in ordered]),
        iterations=np.column_stack([_rising(table, "iteration") for table in ordered]),
        grad_sqr=np.column_stack([table.numbers("grad_sqr", positive=False) for table in ordered]),
        grad_var=np.column_stack([table.numbers("grad_var") for table in ordered]),
    )


def _validation_tables(folder: Path) -> dict[int, Table]:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = [match for match in map(_VALIDATION_FILE.fullmatch, names) if match]
    return {int(match[1]): read_table(folder / match[0]) for match in found}


def _check_epochs(tables: list[Table]) -> None:
    epochs = [len(table.numbers("progress")) for table in tables]
    for table, count in zip(tables, epochs, strict=True):
        if count != epochs[0]:
            raise TableError(table.path, None, f"has {count} epochs, {tables[0].path.name} has {epochs[0]}")


def _rising(table: Table, column: str) -> FloatArray:
    values = table.numbers(column)
    falls = np.flatnonzero(np.diff(values) <= 0)
    if falls.size:
        raise table.cell_error(column, int(falls[0]) + 1, "not more than the row before")
    return values


def _measured(table: Table) -> dict[Placement, FloatArray]:
    rows = np.column_stack([_whole(table, "local_bsz"), *_times(table)])
    placements = [_placement(table, row) for row in range(len(rows))]
    chosen = {shape: [i for i, other in enumerate(placements) if other == shape] for shape in dict.fromkeys(placements)}
    return {shape: _ascending(table, shape, rows[indices]) for shape, indices in chosen.items()}


def _ascending(table: Table, shape: Placement, rows: FloatArray) -> FloatArray:
    ordered = rows[np.argsort(rows[:, 0])]
    if not np.all(np.diff(ordered[:, 0]) > 0):
        raise TableError(table.path, "local_bsz", f"placement {''.join(map(str, shape))} has a batch twice")
    return ordered


def _placement(table: Table, row: int) -> Placement:
    text = table.texts("placement")[row]
    if not re.fullmatch("[1-9]+", text):
        raise table.cell_error("placement", row, "not a digit from 1 to 9 for each node")
    return tuple(map(int, text))


def _spread(table: Table) -> FloatArray:
    counts = [_whole(table, column) for column in ("num_nodes", "num_replicas", "local_bsz")]
    return np.column_stack([*counts, *_times(table)])


def _times(table: Table) -> tuple[FloatArray, FloatArray]:
    return table.numbers("step_time"), table.numbers("sync_time", positive=False)


def _whole(table: Table, column: str) -> FloatArray:
    values = table.numbers(column)
    broken = np.flatnonzero(values % 1)
    if broken.size:
        raise table.cell_error(column, int(broken[0]), "not a whole number")
    return values
