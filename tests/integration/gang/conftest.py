"""What the tests of rigid jobs share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster import TestCluster
from support.gang_jobs import listening


@pytest.fixture(scope="module")
def scheduler(cluster: TestCluster) -> Iterator[Any]:
    """An actor that hears what masters tell the scheduler."""
    with listening() as actor:
        yield actor
