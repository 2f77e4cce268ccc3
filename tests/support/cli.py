"""The raytide command, called in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from raytide.cli.main import app


def invoke(*words: str, env: dict[str, str] | None = None) -> Result:
    """Its result; a defect comes out as itself."""
    done = CliRunner().invoke(app, list(words), env=env)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def document(*words: str) -> Any:
    """What it says with ``--json``."""
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)
