"""The layout of docs: four source roots of one namespace package, none of which hides ``platform``."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("platform", "actors", "policies", "jobs")
MODULES = [path for root in SOURCE_ROOTS for path in sorted((ROOT / root / "raytide").rglob("*.py"))]
PYTHON_FILES = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]
MAX_LINES = 420
MAX_TEST_LINES = 600  # tables of cases are long, and read one case at a time
ADDS_WORKING_FOLDER = ROOT / "platform/raytide/cli/cluster.py"  # `raytide run MODULE`, as `python -m MODULE` does


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def run_in_root(code: str) -> str:
    """Run Python code as ``python -c`` in the root does, with the root first on ``sys.path``."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_standard_librarys_platform_wins_in_the_root():
    assert run_in_root("import platform; print(platform.system())") == "Linux"


def test_ray_imports_in_the_root():
    assert run_in_root("import ray; print(ray.__name__)") == "ray"


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_namespace_folders_have_no_init(root: str):
    assert not (ROOT / root / "__init__.py").exists(), "would shadow other packages of this name"
    assert not (ROOT / root / "raytide" / "__init__.py").exists(), "would close the namespace"


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_source_roots_hold_the_namespace_and_specs_only(root: str):
    packages = {path.name for path in (ROOT / root).iterdir() if any(path.rglob("*.py"))}
    assert packages <= {"raytide"}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_folder_and_import_agree(path: Path):
    """Every folder below ``raytide/`` is a package, so that a module has one name only."""
    for folder in path.parents:
        if folder.name == "raytide":
            break
        assert (folder / "__init__.py").exists(), f"{name(folder)} needs an __init__.py"


def test_no_module_is_defined_in_two_roots():
    modules = [path.relative_to(ROOT).parts[1:] for path in MODULES]
    assert len(modules) == len(set(modules))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_module_has_a_docstring(path: Path):
    assert ast.get_docstring(ast.parse(path.read_text())), "say what the module is for"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name)
def test_files_stay_small(path: Path):
    limit = MAX_LINES if path in MODULES else MAX_TEST_LINES
    assert len(path.read_text().splitlines()) <= limit, "split it: one idea a file"


def test_the_sources_do_not_edit_sys_path():
    edit = re.compile(r"sys\.path(\.(insert|append|extend|remove|pop)| *\+?= )")
    others = [path for path in MODULES if path != ADDS_WORKING_FOLDER]
    assert [name(path) for path in others if edit.search(path.read_text())] == []
