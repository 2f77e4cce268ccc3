"""A process ends when its master says so, and when it has been gone for too long; not before."""

from __future__ import annotations

from ray.exceptions import ActorDiedError, GetTimeoutError

from raytide.actors.gang.process import Lease


def test_a_lease_outlives_a_restart_of_the_master() -> None:
    now = 0.0
    answers: list[bool | None] = [True, None, None, True, None, None, None, False]

    def is_wanted() -> bool:
        answer = answers.pop(0)
        if answer is None:
            raise GetTimeoutError
        return answer

    lease = Lease(is_wanted, 10.0, lambda: now)
    found = []
    for _ in range(8):
        now += 4.0
        found.append(lease.holds())
    assert found == [True, True, True, True, True, True, False, False]


def test_a_master_that_was_ended_does_not_come_back() -> None:
    def is_wanted() -> bool:
        raise ActorDiedError

    assert not Lease(is_wanted, 10.0, lambda: 0.0).holds()
