"""Markers by folder: a test in ``tests/fault`` is a fault test, without saying so."""

from __future__ import annotations

from pathlib import Path

import pytest

TIERS = frozenset({"unit", "property", "contract", "replay", "integration", "fault", "gpu"})
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tier = item.path.relative_to(HERE).parts[0]
        if tier in TIERS:
            item.add_marker(tier)


def pytest_sessionfinish() -> None:
    """End the shared cluster, if a test started it."""
    from support.cluster import end_shared_cluster

    end_shared_cluster()
