"""A driver's script says where its workers may run, and runs by itself too."""

from __future__ import annotations

import pytest

from raytide.train import granted_nodes


def test_the_selector_of_the_granted_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAYTIDE_LABEL_SELECTOR", raising=False)
    assert granted_nodes() == {}
    monkeypatch.setenv("RAYTIDE_LABEL_SELECTOR", '{"ray.io/node-id": "in(a,b)"}')
    assert granted_nodes() == {"label_selector": {"ray.io/node-id": "in(a,b)"}}
