"""A rendezvous store for groups whose members are threads of one process: no server, no sockets, no name look-ups.

torch's TCPStore asks the name server for the name of every peer's address, and a lost answer costs five seconds.
"""

from __future__ import annotations

import itertools
from typing import Any

from torch.distributed import HashStore, PrefixStore

from raytide.collective import StoreAddress, join

_stores: dict[int, Any] = {}
_ports = itertools.count(1)
_open_store, _reach = join.open_store, join.reach


class LocalStore:
    """Stands in for a ``StoreServer``; members reach it by its address as they reach that one."""

    def __init__(self) -> None:
        self.address = StoreAddress("local", next(_ports))
        _stores[self.address.port] = HashStore()

    def close(self) -> None:
        _stores.pop(self.address.port, None)


def _open(address: StoreAddress, name: str, timeout_s: float) -> Any:
    if address.host != "local":
        return _open_store(address, name, timeout_s)
    if address.port not in _stores:
        raise RuntimeError("the store is closed")
    return PrefixStore(name, _stores[address.port])


def _route(address: StoreAddress, *arguments: Any) -> str:
    return "127.0.0.1" if address.host == "local" else _reach(address, *arguments)


join.open_store, join.reach = _open, _route  # type: ignore[assignment] # a stand-in for the store of TCP
