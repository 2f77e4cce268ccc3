"""The contract of groups, over every backend that this machine has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.collective import check_failures, check_membership, check_operations
from contract.collective.rig import Rig, why_not

CHECKS = (*check_operations.CHECKS, *check_failures.CHECKS, *check_membership.CHECKS)


@pytest.fixture(scope="module", params=["gloo", "nccl"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    reason = why_not(request.param)
    if reason:
        pytest.skip(reason)
    rig = Rig(request.param)
    yield rig
    rig.close()


@pytest.mark.timeout(90)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(rig: Rig, check: object) -> None:
    assert callable(check)
    check(rig)
