"""A command ends as a whole: with all that it started, and with the process that ordered it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest

from raytide.actors.gang.child import Child, Exit, NotStarted, Order

LIMIT_S = 30.0


def order(folder: Path | str, command: str) -> Order:
    return Order(command, {"WORD": "hello"}, str(folder), "rank-0.log", 1.0)


def begun(folder: Path, command: str) -> Child:
    """A command that says ``ready`` when it may be told to end."""
    child = Child(order(folder, command))
    child.start()
    deadline_s = time.monotonic() + LIMIT_S
    while "ready" not in child.log.tail(5):
        assert time.monotonic() < deadline_s, child.log.tail(5)
        time.sleep(0.01)
    return child


def test_a_command_ends_by_itself(tmp_path: Path) -> None:
    for times in (1, 2):
        child = Child(order(tmp_path, "echo $WORD; echo out; echo bad >&2; exit 3"))
        child.start()
        assert child.wait(LIMIT_S) == Exit(3, False, "hello\nout\nbad")
        assert (tmp_path / "logs/rank-0.log").read_text() == "hello\nout\nbad\n" * times
    assert (tmp_path / "state").is_dir()


def test_commands_that_are_over_at_once_are_told() -> None:
    """Over before their guard has looked at them."""
    for _ in range(20):
        child = Child(order("memory://raytide-children/short", "exit 4"))
        child.start()
        assert child.wait(LIMIT_S) == Exit(4, False, "")


def test_a_told_command_may_save(tmp_path: Path) -> None:
    child = begun(tmp_path, "trap 'sleep 0.2; echo saved; exit 0' TERM; sleep 100 & echo ready; wait")
    child.end(LIMIT_S)
    child.end(LIMIT_S)
    assert child.wait(LIMIT_S) == Exit(0, True, "ready\nsaved")


def test_a_command_that_stays_is_killed(tmp_path: Path) -> None:
    child = begun(tmp_path, "trap '' TERM; echo ready; sleep 100; sleep 100")
    child.end(0.2)
    assert child.wait(LIMIT_S) == Exit(-9, True, "ready")


@pytest.mark.parametrize("prefix", ["", "setsid "])
def test_what_it_leaves_behind_ends_with_it(tmp_path: Path, prefix: str) -> None:
    child = Child(order(tmp_path, f"trap '' TERM; {prefix}sleep 123.5 & sleep 0.3; exit 0"))
    child.start()
    assert child.wait(LIMIT_S) == Exit(0, False, "")
    assert not running("sleep 123.5")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank-0.log").mkdir()
    with pytest.raises(NotStarted, match="Is a directory"):
        Child(order(tmp_path, "true")).start()


def test_it_dies_with_the_process_that_ordered_it(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\nfrom raytide.actors.gang.child import Child, Order\n"
        "Child(Order('sleep 124.5; echo', {}, sys.argv[1], 'log', 30.0)).start()\n"
        "time.sleep(0.2)\nos.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=LIMIT_S)
    deadline_s = time.monotonic() + LIMIT_S
    while running("sleep 124.5"):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_output_of_a_job_on_a_remote_store_is_put_there() -> None:
    for times in (1, 2):
        child = Child(order("memory://raytide-children", "echo $WORD"))
        child.start()
        assert child.wait(LIMIT_S) == Exit(0, False, "hello")
        text = fsspec.filesystem("memory").cat("/raytide-children/logs/rank-0.log").decode()
        assert text == "hello\n" * times


def running(command: str) -> bool:
    found = subprocess.run(["pgrep", "-f", command], capture_output=True, check=False)
    return found.returncode == 0
