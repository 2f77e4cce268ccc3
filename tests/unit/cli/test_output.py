from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import typer

from raytide.cli.output import describe, output
from raytide.errors import ConfigError, JobFailed, LoopError, RaytideError

TRACEBACK = "Traceback (most recent call last):\n  File 'x.py', line 1\nValueError: bad [data]\n"


def test_json_is_the_only_thing_on_standard_output(capsys: pytest.CaptureFixture[str]):
    with output(as_json=True) as out:
        print("a replica's print")
        out.say("on the way")
        out.show({"rate": np.float64(1.5)}, "for people")
        print("another one")
    stdout, stderr = capsys.readouterr()
    assert json.loads(stdout) == {"rate": 1.5}
    assert "a replica's print" in stderr
    assert "another one" in stderr


def test_people_see_tables(capsys: pytest.CaptureFixture[str]):
    with output(as_json=False) as out:
        out.show({}, "for people")
    assert capsys.readouterr().out == "for people\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("workers", "'x' is no range", "Write 1:4"), 2),
        (RaytideError("refused"), 2),
        (JobFailed("job a failed"), 1),
        (LoopError("a", 1, TRACEBACK), 1),
    ],
)
def test_errors_are_a_line_and_a_code(error: RaytideError, code: int, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as end, output(as_json=False):
        raise error
    stdout, stderr = capsys.readouterr()
    assert end.value.exit_code == code
    assert stdout == ""
    assert stderr.splitlines()[-1] == f"error: {describe(error)[0]}"


def test_an_error_in_json(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit), output(as_json=True):
        raise LoopError("a", 1, TRACEBACK)
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "error": "job a: the training loop raised on rank 1: ValueError: bad [data]",
        "kind": "LoopError",
    }


def test_an_interrupt_has_its_own_code():
    with pytest.raises(typer.Exit) as end, output(as_json=False):
        raise KeyboardInterrupt
    assert end.value.exit_code == 130


def test_standard_output_is_given_back():
    before = sys.stdout
    with pytest.raises(typer.Exit), output(as_json=True):
        raise RaytideError("x")
    assert sys.stdout is before
