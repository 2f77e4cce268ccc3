"""Every notebook is executed from top to bottom, as a reader would."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[3] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
CELL_LIMIT_S = 400


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path):
    notebook = nbformat.read(path, as_version=4)
    assert outputs(notebook) == []
    assert {cell.execution_count for cell in notebook.cells if cell.cell_type == "code"} == {None}


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")
def test_the_quickstart_trains_resizes_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")  # a cluster of its own, whatever runs on this machine
    notebook = nbformat.read(FOLDER / "01_quickstart.ipynb", as_version=4)
    NotebookClient(notebook, timeout=CELL_LIMIT_S, resources={"metadata": {"path": str(tmp_path)}}).execute()
    text = "".join(output.get("text", "") for output in outputs(notebook))
    assert "succeeded" in text
    assert "every one exactly once" in text
    ours = [line for line in text.splitlines() if "pid=" not in line]  # Ray colours what it forwards from processes
    assert "\x1b" not in "".join(ours), "a notebook is no terminal"
    data = [output.data for output in outputs(notebook) if "data" in output]
    assert any("image/png" in bundle for bundle in data), "the timeline"
    assert any("world_size" in bundle.get("text/html", "") for bundle in data), "the resizes as a frame"
    assert sum("RequestCost(" in bundle.get("text/plain", "") for bundle in data) == 3


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")
def test_five_policies_are_compared_and_explained(tmp_path: Path):
    notebook = nbformat.read(FOLDER / "02_policies.ipynb", as_version=4)
    NotebookClient(notebook, timeout=CELL_LIMIT_S, resources={"metadata": {"path": str(tmp_path)}}).execute()
    text = "".join(output.get("text", "") for output in outputs(notebook))
    assert text.count("of 48 are free") >= 5, "reasons in words"
    assert "nobody overtakes" in text
    data = [output.data for output in outputs(notebook) if "data" in output]
    assert sum("image/png" in bundle for bundle in data) == 2
    assert any("mean_queueing_s" in bundle.get("text/html", "") for bundle in data), "the figures as a frame"
