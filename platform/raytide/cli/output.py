"""What every command shares: where its answer goes, and how an error looks.

Standard output carries the answer and nothing else. With ``--json`` that is one document, written when
all else is over, so that no replica's print can come between; everything said on the way goes to
standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from raytide.errors import JobFailed, RaytideError

EXIT_FAILED, EXIT_REFUSED, EXIT_INTERRUPTED = 1, 2, 130


class Output:
    """Where a command writes.

    Args:
        as_json: Documents instead of tables.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._stdout = sys.stdout
        self._console = Console(file=sys.stdout)
        self._errors = Console(stderr=True)
        self._document: Any = None

    def show(self, document: Any, *shown: RenderableType) -> None:
        """Give the command's answer: ``document`` for programs, ``shown`` for people."""
        if self.as_json:
            self._document = document
            return
        for part in shown:
            self._console.print(part, highlight=False, soft_wrap=isinstance(part, str))

    def show_line(self, document: Any, line: RenderableType) -> None:
        """Give one of several answers at once, for commands that follow something."""
        if self.as_json:
            self._write(document)
        else:
            self._console.print(line, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Tell people something that is not the answer."""
        self._errors.print(Text(text, style="dim"), soft_wrap=True)

    def finish(self) -> None:
        """Write the document, now that nobody else writes any more."""
        if self._document is not None:
            self._write(self._document)

    def fail(self, error: RaytideError) -> int:
        """Report an error; returns the exit code."""
        headline, details = describe(error)
        if details:
            self._errors.print(Text(details, style="dim"), soft_wrap=True)
        self._errors.print(Text.assemble(("error: ", "bold red"), (headline, "red")), soft_wrap=True)
        if self.as_json:
            self._write({"error": headline, "kind": type(error).__name__})
        return EXIT_FAILED if isinstance(error, JobFailed) else EXIT_REFUSED

    def _write(self, document: Any) -> None:
        self._stdout.write(json.dumps(document, default=_plain) + "\n")
        self._stdout.flush()


@contextmanager
def output(*, as_json: bool) -> Iterator[Output]:
    """Run a command: the answer comes at the end, an error of raytide's as one line and an exit code."""
    out = Output(as_json=as_json)
    try:
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            yield out
        out.finish()
    except RaytideError as error:
        raise typer.Exit(out.fail(error)) from error
    except KeyboardInterrupt as interrupt:
        out.say("interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from interrupt


def describe(error: RaytideError) -> tuple[str, str]:
    """An error as one line, and what is worth reading above it: a user's own traceback, never raytide's."""
    headline, _, details = str(error).partition("\n")
    last = details.strip().splitlines()[-1:] if isinstance(error, JobFailed) else []
    return ": ".join([headline, *last]), details.strip()


def _plain(value: Any) -> Any:
    """What JSON lacks: numpy's numbers, sets and paths."""
    if hasattr(value, "item"):
        return value.item()
    return sorted(value) if isinstance(value, set | frozenset) else str(value)
