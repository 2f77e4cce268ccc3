"""Group descriptions are refused where they are written, with the setting, the problem and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from raytide.collective import GroupSpec, StoreAddress
from raytide.errors import ConfigError

STORE = StoreAddress("127.0.0.1", 4000)


def test_a_spec_has_short_limits_by_default() -> None:
    spec = GroupSpec("job/1", 0, 2, STORE)
    assert (spec.backend, spec.timeout_s, spec.connect_timeout_s, spec.host) == ("gloo", 30.0, 30.0, None)


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"name": ""}, "GroupSpec.name", "is empty"),
        ({"world_size": 0}, "GroupSpec.world_size", "is 0"),
        ({"rank": 2}, "GroupSpec.rank", "Give a rank in 0..1"),
        ({"rank": -1}, "GroupSpec.rank", "is -1 of 2 members"),
        ({"backend": "mpi"}, "GroupSpec.backend", "Use gloo or nccl"),
        ({"timeout_s": 0.0}, "GroupSpec.timeout_s", "positive"),
        ({"timeout_s": float("inf")}, "GroupSpec.timeout_s", "finite"),
        ({"connect_timeout_s": float("nan")}, "GroupSpec.connect_timeout_s", "is nan"),
    ],
)
def test_a_bad_spec_names_the_field(change: dict[str, Any], field: str, text: str) -> None:
    good: dict[str, Any] = {"name": "job/1", "rank": 0, "world_size": 2, "store": STORE}
    with pytest.raises(ConfigError) as caught:
        GroupSpec(**(good | change))
    assert caught.value.field == field
    assert text in str(caught.value)


@pytest.mark.parametrize(("host", "port"), [("", 4000), ("localhost", 0), ("localhost", 65536)])
def test_a_bad_store_address_is_refused(host: str, port: int) -> None:
    with pytest.raises(ConfigError):
        StoreAddress(host, port)
