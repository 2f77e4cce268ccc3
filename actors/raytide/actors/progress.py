"""Live progress of a job in a terminal or notebook."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from raytide.actors.views import Event, JobView

_QUIET = frozenset({"request", "fence", "checkpoint"})


class Progress:
    """Shows one line that changes, and events above it.

    Args:
        job: Name of the job.
        shown: False shows nothing.
        console: Where to; a plain log is written where there is no terminal.
    """

    def __init__(self, job: str, *, shown: bool, console: Console | None = None) -> None:
        self._job = job
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._shown = shown
        self._interactive = shown and self._console.is_terminal

    def __enter__(self) -> Progress:
        if self._interactive:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._interactive:
            self._live.__exit__(kind, error, trace)

    def update(self, view: JobView) -> None:
        """Show the job as it stands, and its new events."""
        if not self._shown:
            return
        for event in view.events:
            if event.kind not in _QUIET:
                self._console.print(event_line(event), highlight=False)
        if self._interactive:
            self._live.update(status_line(view))


def event_line(event: Event) -> str:
    """One event as a line: ``  12.3 s`` is left to the caller; costs are in milliseconds."""
    text = event.text.splitlines()[0]
    data = event.data
    parts = []
    if data.get("pause_s"):
        parts.append(f"pause {1000 * data['pause_s']:.0f} ms")
    if data.get("bytes_moved"):
        parts.append(f"{format_bytes(data['bytes_moved'])} moved")
    if data.get("recovery_s"):
        parts.append(f"recovered in {data['recovery_s']:.2f} s")
    return f"[raytide] {text}" + (f" ({', '.join(parts)})" if parts else "")


def format_bytes(count: float) -> str:
    """``1.5 MB``."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def status_line(view: JobView) -> Table:
    """The changing line."""
    grid = Table.grid(padding=(0, 2))
    metrics = "  ".join(f"{key} {value:.4g}" for key, value in view.metrics.items())
    grid.add_row(
        Text(view.name, style="bold"),
        Text(view.phase, style="green" if view.phase == "running" else "yellow"),
        f"epoch {view.epoch}",
        f"step {view.step}",
        f"{view.world_size} of {view.least}..{view.most} replicas",
        f"{view.samples_per_s:.0f} samples/s",
        metrics,
    )
    return grid
