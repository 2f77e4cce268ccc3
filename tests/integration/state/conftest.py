"""Every test here runs on both databases."""

from __future__ import annotations

from contextlib import closing

import pytest

from raytide.state import StateStore
from support.postgres import fresh_database


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    return fresh_database(request.getfixturevalue("postgres"))


@pytest.fixture
def store(url):
    with closing(StateStore(url)) as opened:
        yield opened
