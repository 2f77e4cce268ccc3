from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from raytide.cli.options import Change, parse_change, parse_rank, parse_ranks, split_list, split_words
from raytide.cli.requests import plan_scale
from raytide.errors import ConfigError


class FakeHandle:
    """Writes down what was asked of it."""

    def __init__(self, world_size: int = 2) -> None:
        self.world_size = world_size
        self.asked: list[tuple[str, Any]] = []

    def view(self, since: int = 0) -> SimpleNamespace:
        return SimpleNamespace(world_size=self.world_size, phase="running", ended=False)

    def scale_out(self, count: int = 0, *, slots: tuple[str, ...] = ()) -> None:
        self.asked.append(("out", slots or count))

    def scale_in(self, count: int = 0, *, ranks: tuple[int, ...] = ()) -> None:
        self.asked.append(("in", ranks or count))


def asked(*args: Any, world_size: int = 2) -> tuple[str | None, list[tuple[str, Any]]]:
    handle = FakeHandle(world_size)
    name, action = plan_scale(*args)
    action(handle)
    return name, handle.asked


@pytest.mark.parametrize(
    ("text", "change"),
    [("+2", Change(by=2)), ("-1", Change(by=-1)), ("3", Change(to=3)), ("-0", Change(by=0))],
)
def test_changes(text: str, change: Change):
    assert parse_change(text) == change


@pytest.mark.parametrize("text", ["", "two", "+", "1.5", "1:2", "--json", "0"])
def test_senseless_changes_are_refused(text: str):
    with pytest.raises(ConfigError, match="scale"):
        parse_change(text)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("digits", "+2"), ("digits", [("out", 2)])),
        (("digits", "-1"), ("digits", [("in", 1)])),
        (("4", None), (None, [("out", 2)])),
        (("digits", "1"), ("digits", [("in", 1)])),
        (("7", "3"), ("7", [("out", 1)])),
        (("digits", None, (1, 2)), ("digits", [("in", (1, 2))])),
        (("-2", None, (1, 2)), (None, [("in", (1, 2))])),
        (("digits", "+1", (), ("node-a",)), ("digits", [("out", ("node-a",))])),
        ((None, None, (), ("node-a",)), (None, [("out", ("node-a",))])),
    ],
)
def test_scale_asks_for(words: tuple[Any, ...], expected: tuple[str | None, list[tuple[str, Any]]]):
    assert asked(*words) == expected


@pytest.mark.parametrize(
    "words",
    [
        (None, None),
        ("digits", None),
        ("digits", "-1", (1, 2)),
        ("a", None, (1,), ("node-a",)),
        ("a", "+2", (), ("b",)),
    ],
)
def test_scale_refuses(words: tuple[Any, ...]):
    with pytest.raises(ConfigError, match="scale"):
        plan_scale(*words)


def test_a_job_that_has_the_size_already_is_left_alone():
    with pytest.raises(ConfigError, match="already"):
        asked("digits", "2")


def test_words_name_a_job_or_not():
    assert split_words("migrate", "1", None, "RANK") == (None, "1")
    assert split_words("migrate", "digits", "1", "RANK") == ("digits", "1")
    with pytest.raises(ConfigError, match=r"raytide migrate \[JOB\] RANK"):
        split_words("migrate", None, None, "RANK")


def test_lists():
    assert split_list("node-a, node-b,") == ("node-a", "node-b")
    assert split_list(None) == ()
    assert parse_ranks("1,2") == (1, 2)
    with pytest.raises(ConfigError, match="rank"):
        parse_rank("-1")
