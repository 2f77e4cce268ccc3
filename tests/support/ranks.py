"""Real gloo groups whose members are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from raytide.collective import Group, GroupSpec, connect
from support.local_store import LocalStore


class Ranks:
    """Groups of any size, connected when they are first needed and used again."""

    def __init__(self) -> None:
        self._store = LocalStore()
        self._groups: dict[int, list[Group]] = {}

    def run(self, size: int, work: Callable[[int, Group], Any]) -> list[Any]:
        """Run ``work(rank, group)`` on every rank at once; returns the results by rank."""
        if size not in self._groups:
            self._groups[size] = self._parallel(size, self._connect(size))
        return self._parallel(size, lambda rank: work(rank, self._groups[size][rank]))

    def _connect(self, size: int) -> Callable[[int], Group]:
        return lambda rank: connect(GroupSpec(f"ranks-{size}", rank, size, self._store.address, timeout_s=20.0))

    @staticmethod
    def _parallel(size: int, work: Callable[[int], Any]) -> list[Any]:
        results: list[Any] = [None] * size

        def one(rank: int) -> None:
            try:
                results[rank] = work(rank)
            except Exception as error:  # noqa: BLE001 - handed to the test, whatever it is
                results[rank] = error

        threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30.0)
            assert not thread.is_alive(), "a rank hangs"
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def close(self) -> None:
        for groups in self._groups.values():
            for group in groups:
                group.close()
        self._store.close()


@contextmanager
def ranks() -> Iterator[Ranks]:
    made = Ranks()
    try:
        yield made
    finally:
        made.close()
