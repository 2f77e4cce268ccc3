"""Who has arrived: members announce themselves in the store before anybody connects to anybody.

torch's own connect blocks in C++ while a member is missing. So it is called only when all have announced
themselves, and until then a member polls, can be cancelled, and can say who is missing.
"""

from __future__ import annotations

import threading
import time

from raytide.collective.spec import GroupSpec
from raytide.collective.store import KeyStore

POLL_S = 0.005
NAME_MISSING_EVERY_S = 0.25


class Refused(Exception):
    """The store says that this member cannot join under this name."""


def announce(store: KeyStore, spec: GroupSpec, address: str) -> None:
    """Tells the others that this member is here, and where to reach it. Raises :class:`Refused`."""
    if store.add(f"claim/{spec.rank}", 1) != 1:
        raise Refused("this name was used before for this rank; a name is good for one connect")
    shape = f"{spec.world_size} members over {spec.backend}"
    agreed = store.compare_set("shape", "", shape).decode()
    if agreed != shape:
        raise Refused(f"this member expects {shape}, another one {agreed}")
    store.set(_key(spec.rank), address)


def wait_for_all(store: KeyStore, missing: list[int], stop: threading.Event) -> bool:
    """Polls until every member has announced itself.

    Args:
        store: The group's part of the store.
        missing: The ranks to wait for; kept up to date (within 0.25 s) with those that have not arrived.
        stop: Ends the wait.

    Returns:
        Whether all members are there; ``False`` after ``stop``.
    """
    named_at = -NAME_MISSING_EVERY_S
    while not stop.is_set():
        if store.check([_key(rank) for rank in missing]):
            missing.clear()
            return True
        if time.monotonic() - named_at >= NAME_MISSING_EVERY_S:
            missing[:] = [rank for rank in missing if not store.check([_key(rank)])]
            named_at = time.monotonic()
        stop.wait(POLL_S)
    return False


def addresses(store: KeyStore, world_size: int) -> list[str]:
    """Where each rank is reached (``"host:port"``); all must have announced themselves."""
    return [store.get(_key(rank)).decode() for rank in range(world_size)]


def _key(rank: int) -> str:
    return f"member/{rank}"
