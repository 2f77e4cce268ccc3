"""Markers by folder: a test in ``tests/fault`` is a fault test, without saying so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.cluster import TestCluster

TIERS = frozenset({"unit", "property", "contract", "replay", "integration", "fault", "gpu"})
HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skipped = pytest.mark.skip(reason="takes a minute or more; runs with --slow (make test-slow)")
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(skipped)
        tier = item.path.relative_to(HERE).parts[0]
        if tier in TIERS:
            item.add_marker(tier)


@pytest.fixture(scope="session")
def cluster() -> Iterator[TestCluster]:
    """One real Ray cluster for all tests that need one: two logical nodes with four slots each."""
    from support.cluster import shared_cluster

    with shared_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """One PostgreSQL server for all tests that need one: the folder of its socket."""
    from support.postgres import postgres_server

    with postgres_server() as folder:
        yield folder
