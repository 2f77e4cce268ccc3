"""The end of a process never waits for its groups."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from raytide.collective import GroupSpec, StoreServer, connect
from raytide.collective.store import open_store

# Two imports of torch on busy cores are most of it; the operation in flight would take 120 s.
LIMIT_S = 60.0


@pytest.mark.parametrize(("how", "last"), [("leave", "CollectiveTimeout"), ("abort", "CollectiveAborted")])
def test_a_process_ends_beside_a_silent_peer(how: str, last: str) -> None:
    store = StoreServer()
    address = (store.address.host, str(store.address.port))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    members = [
        subprocess.Popen(
            [sys.executable, "-m", "contract.collective.exiting", str(rank), *address, how],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    try:
        output, _ = members[0].communicate(timeout=LIMIT_S)
    finally:
        for member in members:
            member.kill()
            member.communicate()
        store.close()
    assert output.split() == ["in", "flight", last]
    assert members[0].returncode == 0


def test_a_store_forgets_the_keys_of_an_ended_group() -> None:
    server = StoreServer()
    store = open_store(server.address, "job/1", 5.0)
    other = open_store(server.address, "job/11", 5.0)
    store.set("member/0", "a:1")
    other.set("member/0", "b:2")
    server.forget("job/1")
    assert not store.check(["member/0"])
    assert other.check(["member/0"])
    server.close()


def test_a_group_that_nobody_closed_is_dropped_without_waiting() -> None:
    store = StoreServer()
    begin = time.monotonic()
    connect(GroupSpec("alone/1", 0, 1, store.address))
    store.close()
    store.close()
    assert time.monotonic() - begin < 1.0
