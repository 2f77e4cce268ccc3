"""``schema``: what may stand in a file, for editors."""

# ruff: noqa: PLC0415 - pydantic's models are built when the command runs, so that help comes at once

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape

from raytide.cli.options import JsonOption
from raytide.cli.output import output
from raytide.errors import ConfigError


def schema(
    what: Annotated[str, typer.Argument(metavar="job|tenants", help="The kind of file.")],
    as_json: JsonOption = False,
) -> None:
    """Print the JSON schema of a job file or a file of tenants; --json prints it on one line."""
    with output(as_json=as_json) as out:
        from raytide.submission.schema import SCHEMAS

        if what not in SCHEMAS:
            raise ConfigError("schema", f"there is none of {what!r}", f"Known: {', '.join(SCHEMAS)}")
        document = SCHEMAS[what]()
        out.show(document, escape(json.dumps(document, indent=2)))
