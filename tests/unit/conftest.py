"""Unit tests prove one function or one transition: no Ray cluster, ever."""

from __future__ import annotations

from typing import NoReturn

import pytest
import ray


@pytest.fixture(autouse=True)
def no_ray_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``ray.init`` raise; Ray's implicit start (``f.remote()``, ``ray.get``) goes through it too."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        pytest.fail("a unit test tried to start Ray; move it to tests/integration", pytrace=True)

    monkeypatch.setattr(ray, "init", refuse)
