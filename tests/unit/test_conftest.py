"""The rules that the test suite sets for itself hold."""

from __future__ import annotations

import pytest
import ray


@ray.remote
def nothing() -> None: ...


def test_ray_init_is_refused():
    with pytest.raises(pytest.fail.Exception, match="tests/integration"):
        ray.init()


def test_rays_implicit_start_is_refused():
    with pytest.raises(pytest.fail.Exception, match="tests/integration"):
        nothing.remote()


def test_markers_follow_the_folder(request: pytest.FixtureRequest):
    assert request.node.get_closest_marker("unit") is not None
    assert request.node.get_closest_marker("integration") is None
