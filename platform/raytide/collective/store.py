"""The meeting place of a job's members: a small key-value server that lives with the job master."""

from __future__ import annotations

import socket
import threading
import time
from datetime import timedelta
from typing import Any, Protocol

import torch.distributed

from raytide.collective.spec import StoreAddress

RETRY_S = 0.05
# Its stubs hide the stores and the options of single backends.
_dist: Any = torch.distributed


class KeyStore(Protocol):
    """The part of torch's stores in use. Each call is one round trip to the server."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...

    def add(self, key: str, amount: int) -> int: ...

    def check(self, keys: list[str]) -> bool: ...

    def compare_set(self, key: str, expected: str, desired: str) -> bytes: ...


class StoreServer:
    """Serves every group of one job. It must outlive the connects, not the groups.

    Args:
        host: Name or address under which the members reach this process; it listens on all interfaces.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._store: Any = _dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
        self.address = StoreAddress(host, self._store.port)

    def forget(self, name: str) -> None:
        """Frees the keys of a group that will not be connected again (a generation that has ended)."""
        for key in self._store.list_keys():
            if key.startswith((f"/{name}/", f"{name}/")):
                self._store.delete_key(key)

    def close(self) -> None:
        """Stops listening; connects in progress fail, connected groups go on. May be called again."""
        self._store = None


def reach(address: StoreAddress, limit_at: float, stop: threading.Event) -> str:
    """Waits until the store accepts connections; returns this machine's address on the way to it.

    Args:
        address: The store.
        limit_at: When to give up, in monotonic seconds.
        stop: Ends the wait early.

    Raises:
        OSError: It did not accept in time.
    """
    while True:
        try:
            wait_s = max(RETRY_S, limit_at - time.monotonic())
            with socket.create_connection((address.host, address.port), timeout=wait_s) as probe:
                return str(probe.getsockname()[0])
        except OSError:
            if stop.wait(RETRY_S) or time.monotonic() > limit_at:
                raise


def open_store(address: StoreAddress, name: str, timeout_s: float) -> KeyStore:
    """A client that sees only the keys of the group ``name``. Blocks up to ``timeout_s`` seconds.

    Raises:
        RuntimeError: No store answers at the address.
    """
    limit = timedelta(seconds=timeout_s)
    host, port = address.host, address.port
    client = _dist.TCPStore(host, port, is_master=False, timeout=limit, wait_for_workers=False)
    store: KeyStore = _dist.PrefixStore(name, client)
    return store
