"""Live progress of a job in a terminal, a notebook or a log file."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from raytide.actors.views import Event, JobView, metrics_text

_QUIET = frozenset({"request", "fence", "checkpoint"})
_STYLES = {
    "generation": "cyan",
    "lost": "bold red",
    "failed": "bold red",
    "succeeded": "bold green",
    "stopped": "yellow",
}
_LOG_PERIOD_S = 10.0
"""Where lines cannot change, the job's state is written this often."""


class Progress:
    """Shows one line that changes, and events above it.

    What replicas print, and what this process prints meanwhile, appears above the line too.

    Args:
        job: Name of the job.
        shown: False shows nothing.
        console: Where to; a plain log is written where there is no terminal.
    """

    def __init__(self, job: str, *, shown: bool, console: Console | None = None) -> None:
        self._job = job
        self._shown = shown
        self._console = console or _default_console()
        self._cell = _NotebookLine() if shown and _in_notebook() else None
        is_live = shown and self._cell is None and self._console.is_terminal
        self._live = self._make_live() if is_live else None
        self._origin_s = 0.0
        self._logged_s = time.monotonic()

    def _make_live(self) -> Live:
        # Standard output that goes to a file keeps going there.
        redirect = sys.stdout.isatty()
        start = Text(f"{self._job}  starting", style="yellow")
        return Live(start, console=self._console, refresh_per_second=8, transient=True, redirect_stdout=redirect)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def update(self, view: JobView) -> None:
        """Show the job as it stands, and its new events."""
        if not self._shown:
            return
        for event in view.events:
            self._origin_s = self._origin_s or event.time_s
            if event.kind not in _QUIET:
                self.note(event_line(event, self._origin_s))
        line = status_line(view)
        if self._live is not None:
            self._live.update(line)
        elif self._cell is not None:
            self._cell.show(line.plain)
        elif time.monotonic() - self._logged_s >= _LOG_PERIOD_S and not view.ended:
            self._logged_s = time.monotonic()
            self.note(line)

    def note(self, line: Text | str) -> None:
        """Write a line above the one that changes."""
        if self._shown:
            # Text is never markup here: "[raytide]" or a user's "[1, 2]" would vanish as a tag.
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class _NotebookLine:
    """A line of a notebook's output that changes in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        bundle = {"text/plain": text}
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _in_notebook() -> bool:
    kernel = sys.modules.get("ipykernel.zmqshell")
    return kernel is not None and kernel.ZMQInteractiveShell.initialized()


def _default_console() -> Console:
    if _in_notebook():
        # Not rich's own notebook output, which makes an HTML block of every line; and a kernel's output
        # says that it is a terminal, but takes no cursor movements.
        return Console(force_jupyter=False, force_terminal=False)
    return Console(stderr=True)


def event_line(event: Event, origin_s: float) -> Text:
    """One event as a line: seconds since ``origin_s``, what happened, and what it cost."""
    summary = event.text.splitlines()[0] if event.text else event.kind
    costs = describe_cost(event.data)
    return Text.assemble(
        (f"[raytide] {max(0.0, event.time_s - origin_s):6.1f} s  ", "dim"),
        (summary, _STYLES.get(event.kind, "")),
        (f"  ({costs})" if costs else "", "dim"),
    )


def describe_cost(data: Mapping[str, Any]) -> str:
    """What a membership change cost: ``pause 12 ms, 1.5 MB moved, recovered in 0.21 s``."""
    parts = []
    if data.get("pause_s"):
        parts.append(f"pause {format_ms(data['pause_s'])}")
    if data.get("bytes_moved"):
        parts.append(f"{format_bytes(data['bytes_moved'])} moved")
    if data.get("recovery_s"):
        parts.append(f"recovered in {data['recovery_s']:.2f} s")
    return ", ".join(parts)


def format_ms(seconds: float) -> str:
    """``12 ms``; ``0.4 ms`` below ten."""
    value = 1000.0 * seconds
    if 0 < value < 0.05:
        return "<0.1 ms"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def format_bytes(count: float) -> str:
    """``1.5 MB``."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("KB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"


def status_line(view: JobView) -> Text:
    """The changing line: cut where the terminal ends, never wrapped."""
    parts = [
        f"epoch {view.epoch}",
        f"step {view.step}",
        f"{view.world_size} of {view.least}..{view.most} replicas",
        f"{view.samples_per_s:.0f} samples/s",
        *([metrics_text(view.metrics)] if view.metrics else []),
    ]
    style = "green" if view.phase == "running" else "yellow"
    line = Text.assemble((view.name, "bold"), "  ", (view.phase, style), "  ", "  ".join(parts))
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
