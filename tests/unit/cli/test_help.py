from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from raytide.cli.main import app

REQUESTS = ["scale", "migrate", "profile", "checkpoint", "suspend", "resume", "stop", "cancel", "pin"]
PLATFORM = ["up", "down", "submit", "ls", "show", "logs", "top"]
COMMANDS = ["run", "status", "events", "demo", "simulate", "schema", "doctor", *PLATFORM, *REQUESTS]
TRACES = ["trace generate", "trace describe"]
GROUPS = [
    *TRACES,
    *(f"tenant {name}" for name in ("ls", "set", "remove", "token", "apply")),
    *("policy show", "policy set", "node ls", "node drain"),
]
HEAVY = ("ray", "torch", "numpy", "pandas", "matplotlib")


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from raytide.cli.main import app\n"
        "try:\n    app(['--help'])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        f"print('loaded', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_help_names_every_command():
    text = CliRunner().invoke(app, ["--help"]).output
    assert [name for name in [*COMMANDS, "trace", "tenant", "policy", "node"] if name not in text] == []


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_every_command_has_an_example_and_json(name: str):
    done = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert done.exit_code == 0
    assert f"raytide {name}" in done.output.partition("Example:")[2]
    assert "--json" in done.output
