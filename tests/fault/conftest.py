"""One real Ray cluster for all tests that need one: two logical nodes with four slots each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cluster import TestCluster, shared_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[TestCluster]:
    """The shared cluster, connected."""
    with shared_cluster() as running:
        yield running
