"""The description of one membership of a job: who I am in it, and where its members meet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from raytide.errors import ConfigError

BACKENDS = ("gloo", "nccl")


class ReduceOp(Enum):
    """How the members' values are combined, element by element."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class StoreAddress:
    """Where a job's :class:`StoreServer` listens."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not self.host:
            raise ConfigError("StoreAddress.host", "is empty", "Give a host name or an IP address")
        if not 0 < self.port < 65536:
            raise ConfigError("StoreAddress.port", f"{self.port} is no port", "Give a port in 1..65535")


@dataclass(frozen=True)
class GroupSpec:
    """One member's view of one group.

    Args:
        name: Unique per generation, never used again (``"jobname/7"``); the prefix of its keys in the store.
        rank: This member's place, in ``[0, world_size)``.
        world_size: Number of members.
        store: Where the members meet.
        backend: ``"gloo"`` (CPU tensors) or ``"nccl"`` (CUDA tensors).
        timeout_s: Limit of any one operation, in seconds, counted from its start on this member.
        connect_timeout_s: Limit of :func:`connect`, in seconds.
        device: Index of this member's GPU; ``None`` takes the current one of the thread that connects.
        host: Address that this member's sockets bind to; ``None`` takes the one that faces the store.
        own_control: Give the group a control group of its own, also over gloo: what members start there and
            here need not be in one order. A gloo operation that meets one of another size ends the process.
    """

    name: str
    rank: int
    world_size: int
    store: StoreAddress
    backend: str = "gloo"
    timeout_s: float = 30.0
    connect_timeout_s: float = 30.0
    host: str | None = None
    device: int | None = None
    own_control: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("GroupSpec.name", "is empty", "Use '<job>/<generation>'")
        if self.world_size < 1:
            raise ConfigError("GroupSpec.world_size", f"is {self.world_size}", "Give at least 1")
        if not 0 <= self.rank < self.world_size:
            remedy = f"Give a rank in 0..{self.world_size - 1}"
            raise ConfigError("GroupSpec.rank", f"is {self.rank} of {self.world_size} members", remedy)
        if self.backend not in BACKENDS:
            raise ConfigError("GroupSpec.backend", f"is {self.backend!r}", f"Use {' or '.join(BACKENDS)}")
        for field in ("timeout_s", "connect_timeout_s"):
            _check_seconds(f"GroupSpec.{field}", getattr(self, field))


def _check_seconds(field: str, seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(field, f"is {seconds}", "Give a positive, finite number of seconds")
