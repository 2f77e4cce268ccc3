from __future__ import annotations

import pytest

from raytide.doctor.cluster import check_auth, check_clocks, check_cluster, check_ports
from raytide.doctor.facts import Clock, Port, RayCluster


@pytest.mark.parametrize(
    ("is_taken", "is_ray", "level"), [(False, False, "ok"), (True, True, "ok"), (True, False, "warn")]
)
def test_ports(is_taken, is_ray, level):
    (found,) = check_ports([Port(6379, "the head", is_taken, is_ray)])
    assert (found.what, found.level) == ("port 6379", level)


@pytest.mark.parametrize(
    ("facts", "level", "said"),
    [
        (RayCluster(), "ok", "none runs here"),
        (RayCluster("h:1", answers=True), "ok", "h:1 answers"),
        (RayCluster("h:1", is_left_behind=True), "warn", "a dead one left its address behind (h:1)"),
        (RayCluster("h:1"), "bad", "h:1 does not answer"),
        (RayCluster("h:1", answers=True, failure="other Ray"), "bad", "h:1: other Ray"),
    ],
)
def test_clusters(facts, level, said):
    found = check_cluster(facts)
    assert found.level == level
    assert found.detail.startswith(said)


@pytest.mark.parametrize(
    ("mode", "has_token", "demands", "level", "said"),
    [
        (None, False, False, "ok", "off"),
        ("disabled", False, False, "ok", "off"),
        ("disabled", True, False, "ok", "off"),
        ("token", True, False, "ok", "by token"),
        ("TOKEN", True, True, "ok", "by token"),
        (None, True, False, "warn", "RAY_AUTH_MODE is not set, and there is a token"),
        (None, True, True, "bad", "the cluster demands tokens"),
        ("disabled", True, True, "bad", "the cluster demands tokens"),
        ("token", False, True, "bad", "RAY_AUTH_MODE=token, and there is no token"),
        ("on", True, False, "bad", "RAY_AUTH_MODE=on is unknown"),
    ],
)
def test_authentication(mode, has_token, demands, level, said):
    found = check_auth(RayCluster(auth_mode=mode, has_token=has_token, demands_token=demands))
    assert found.level == level
    assert found.detail.startswith(said)


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        ((), [("ok", "no other node to compare with")]),
        ((Clock("a", 0.0, 0.1),), [("ok", "no other node to compare with")]),
        ((Clock("a", 0.2, 0.0), Clock("b", -0.4, 0.0)), [("ok", "those of 2 nodes agree")]),
        ((Clock("a", 0.0, 0.0), Clock("b", 2.0, 1.9)), [("ok", "those of 2 nodes agree")]),
        ((Clock("a", 0.0, 0.0), Clock("b", -2.0, 0.1)), [("warn", "b is 2.0 s behind (give or take 0.1 s)")]),
        ((Clock("a", 0.0, 0.0), Clock("b", 60.0, 0.1)), [("bad", "b is 60.0 s ahead (give or take 0.1 s)")]),
    ],
)
def test_clocks(clocks, expected):
    assert [(found.level, found.detail) for found in check_clocks(RayCluster(clocks=clocks))] == expected
