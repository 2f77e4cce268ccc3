from __future__ import annotations

import io

import pytest
from rich.console import Console

from raytide.actors import progress
from raytide.actors.progress import Progress, event_line, format_bytes, format_ms, status_line
from unit.cli.building import event, generation, view


@pytest.fixture
def log_file() -> Console:
    return Console(file=io.StringIO(), width=40)


def shown(console: Console) -> str:
    return console.file.getvalue()


def test_an_event_is_a_line_with_its_cost():
    line = event_line(generation(112.5, "r0", pause_s=0.0124, bytes_moved=942896, recovery_s=0.21), 100.0)
    assert line.plain == "[raytide]   12.5 s  generation  (pause 12 ms, 942.9 KB moved, recovered in 0.21 s)"


def test_users_brackets_survive(log_file: Console):
    with Progress("digits", shown=True, console=log_file) as bar:
        bar.update(view(events=(event("failed", 5.0, "KeyError: [1, 2]\n  a traceback"),)))
    assert shown(log_file) == "[raytide]    0.0 s  KeyError: [1, 2]\n"


def test_what_only_matters_to_raytide_is_not_shown(log_file: Console):
    with Progress("digits", shown=True, console=log_file) as bar:
        bar.update(view(events=(event("fence"), event("checkpoint"), event("request"))))
    assert shown(log_file) == ""


def test_a_log_file_gets_the_state_now_and_then(log_file: Console, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "_LOG_PERIOD_S", 0.0)
    with Progress("digits", shown=True, console=log_file) as bar:
        bar.update(view())
    assert shown(log_file) == (
        "digits  running  epoch 5  step 120  2 of 1..4 replicas  1280 samples/s  loss 0.1235  accuracy 0.99\n"
    )


def test_a_terminal_gets_a_line_that_changes_and_prints_above_it():
    console = Console(file=io.StringIO(), width=60, force_terminal=True, _environ={"TERM": "xterm"})
    with Progress("digits", shown=True, console=console) as bar:
        bar.update(view(events=(generation(1.0, "r0"),)))
        bar.note("--- said above")
    text = shown(console)
    assert "said above" in text
    assert "step 120" in text
    assert "\x1b[2K" in text, "the line is taken away at the end"


def test_hidden_progress_is_silent(log_file: Console):
    with Progress("digits", shown=False, console=log_file) as bar:
        bar.update(view(events=(event("failed"),)))
    assert shown(log_file) == ""


def test_the_line_is_cut_not_wrapped():
    console = Console(file=io.StringIO(), width=30)
    (line,) = console.render_lines(status_line(view()))
    assert "".join(segment.text for segment in line) == "digits  running  epoch 5  ste…"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (2e6, "2.0 MB"), (3e9, "3.0 GB")]
)
def test_bytes(count: float, text: str):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0.0 ms"), (1e-5, "<0.1 ms"), (0.0024, "2.4 ms"), (1.234, "1234 ms")]
)
def test_milliseconds(seconds: float, text: str):
    assert format_ms(seconds) == text
