"""Stand-ins at the two outer borders: the key-value store and the library that moves bytes."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from raytide.collective.spec import ReduceOp
from raytide.collective.transport import Finished, Handle


class FakeStore:
    """A dictionary with the store's calls."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.keys[key] = value

    def get(self, key: str) -> bytes:
        return self.keys[key].encode()

    def add(self, key: str, amount: int) -> int:
        self.keys[key] = str(int(self.keys.get(key, "0")) + amount)
        return int(self.keys[key])

    def check(self, keys: list[str]) -> bool:
        return all(key in self.keys for key in keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        if self.keys.get(key, "") == expected:
            self.keys[key] = desired
        return self.keys[key].encode()


class ScriptedHandle:
    """Answers polls by a script; counts them."""

    def __init__(self, script: Callable[[int], bool]) -> None:
        self._script = script
        self.polls = 0

    def poll(self, _timeout_s: float) -> bool:
        self.polls += 1
        return self._script(self.polls)

    def done(self) -> bool:
        return False


class FakeTransport:
    """Hands out the given handle for all-reduces; records how it was ended."""

    def __init__(self, handle: Handle | None = None) -> None:
        self.handle = handle or Finished()
        self.ended: list[str] = []

    def refusal(self, _tensor: Tensor) -> str:
        return ""

    def all_reduce(self, _tensor: Tensor, _op: ReduceOp, _limit_s: float) -> Handle:
        return self.handle

    def broadcast(self, _tensor: Tensor, _root: int, _limit_s: float) -> Handle:
        return self.handle

    def reduce_scatter(self, _output: Tensor, _inputs: list[Tensor], _op: ReduceOp, _limit_s: float) -> Handle:
        return self.handle

    def all_gather(self, _outputs: list[Tensor], _tensor: Tensor, _limit_s: float) -> Handle:
        return self.handle

    def abandon(self) -> None:
        self.ended.append("abandon")

    def release(self) -> None:
        self.ended.append("release")
