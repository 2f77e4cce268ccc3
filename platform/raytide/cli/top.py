"""``top``: the platform, live."""

# ruff: noqa: PLC0415 - Ray and PyTorch are imported when a command runs, so that help comes at once

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from raytide.cli import cluster
from raytide.cli.options import JsonOption
from raytide.cli.output import output

ONCE_LINES = 60
"""Of a frame that is not redrawn."""


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    every: Annotated[float, typer.Option(metavar="S", min=0.1, help="Seconds between two frames.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Watch slots by node and tenant, what runs, and what waits for what. Ctrl-C ends it; --json prints once."""
    with output(as_json=as_json) as out, cluster.platform() as platform:
        from raytide.cli.platform_document import platform_document
        from raytide.cli.top_view import frame

        info = platform.info()
        if once or as_json:
            out.show(platform_document(info), frame(info, time.time(), Console().width, ONCE_LINES))
            return
        console = Console()
        try:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                while True:
                    live.update(frame(platform.info(), time.time(), console.width, console.height), refresh=True)
                    time.sleep(every)
        except KeyboardInterrupt:
            return
