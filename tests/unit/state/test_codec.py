"""The text of single values: what others may rely on."""

from __future__ import annotations

import math

import pytest

from raytide.core import JobState, Past
from raytide.core.commands import Wake
from raytide.core.events import Finished, Resized, Started
from raytide.state import codec


def test_an_event_travels_with_its_name():
    assert codec.dumps_event(Started("j")) == '{"type":"Started","value":{"job":"j"}}'
    assert codec.loads_event(codec.dumps_event(Resized("j"))) == Resized("j")


def test_infinity_is_pythons_own():
    assert codec.dumps_command(Wake(math.inf)) == '{"type":"Wake","value":{"at_s":Infinity}}'


@pytest.mark.parametrize("error", ["zero \0", "half a character \udcff", "ümlaut", "line\u2028separator\n\r\x1c"])
def test_any_text_is_one_ascii_line(error):
    text = codec.dumps_event(Finished("j", error))
    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert codec.loads_event(text) == Finished("j", error)


def test_an_unknown_event_is_an_error():
    with pytest.raises(KeyError, match="Exploded"):
        codec.loads_event('{"type":"Exploded","value":{}}')


def test_a_command_is_no_event():
    with pytest.raises(KeyError, match="Wake"):
        codec.loads_event(codec.dumps_command(Wake(1.0)))


def test_a_past_of_now_is_that_of_a_job_just_submitted():
    past = Past(at_s=5.0)
    assert (past.state, past.queued_s, past.shape.counts, past.placement.gpus) == (JobState.PENDING, 5.0, (), ())
    assert codec.loads(Past, codec.dumps(past)) == past
