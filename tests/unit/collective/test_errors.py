"""Errors travel between processes and tell where they come from."""

from __future__ import annotations

import pickle

import pytest

from raytide import collective
from raytide.collective import CollectiveError
from raytide.errors import RaytideError

KINDS = [
    getattr(collective, name)
    for name in collective.__all__
    if isinstance(getattr(collective, name), type) and issubclass(getattr(collective, name), Exception)
]


def test_every_kind_is_listed() -> None:
    assert len(KINDS) == 10


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling_with_its_story(kind: type[CollectiveError]) -> None:
    error = kind("job/7", "all_reduce #12 float32[4]", 3, 1.25, "rank 2 is gone")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert isinstance(copy, RaytideError)
    assert str(copy) == str(error)
    assert (copy.group, copy.operation, copy.rank, copy.seconds, copy.detail) == error.args


def test_the_message_names_group_rank_operation_and_seconds() -> None:
    error = CollectiveError("job/7", "all_reduce #12 float32[4]", 3, 1.25, "rank 2 is gone")
    expected = "group job/7, rank 3: all_reduce #12 float32[4] failed after 1.250 s: rank 2 is gone"
    assert str(error) == expected
