"""Values of the membership protocol: replicas, slots, positions, generations."""

from __future__ import annotations

from dataclasses import dataclass, field

ReplicaId = str
"""Names one replica of a job for its whole life (``r0``, ``r1``, ...); never used again."""


@dataclass(frozen=True, order=True)
class Slot:
    """One schedulable GPU (or logical slot) of a node."""

    node: str
    index: int

    def __str__(self) -> str:
        return f"{self.node}/{self.index}"


@dataclass(frozen=True, order=True)
class Position:
    """Where the job is: ``step`` counts applied steps; ``cursor`` counts samples of ``epoch`` committed."""

    step: int = 0
    epoch: int = 0
    cursor: int = 0


@dataclass(frozen=True)
class Transfer:
    """State flows from ``source`` to every one of ``targets`` before the generation's first step."""

    source: ReplicaId
    targets: tuple[ReplicaId, ...]

    def participants(self) -> tuple[ReplicaId, ...]:
        """Source first: it is rank 0 of the transfer's group."""
        return (self.source, *self.targets)


@dataclass(frozen=True)
class Generation:
    """A numbered membership of a job.

    Attributes:
        number: Rises with every membership; never used twice.
        members: Who takes part in its steps, in rank order.
        transfers: Who hands its state to whom when the generation begins.
        store: ``host:port`` of the rendezvous store.
        planned: True when members switch to it at an agreed step and the previous generation lives
            on until then; False when it follows a fence and begins at once.
        paused: Too few members to train: they go on to their next boundary (user collectives on the
            way are theirs) and wait there for a planned generation. No step happens in it.
    """

    number: int
    members: tuple[ReplicaId, ...]
    transfers: tuple[Transfer, ...] = ()
    store: str = ""
    planned: bool = False
    paused: bool = False

    def __post_init__(self) -> None:
        assert self.members, "a generation has members"
        assert len(set(self.members)) == len(self.members), f"members repeat: {self.members}"

    @property
    def world_size(self) -> int:
        return len(self.members)

    def participants(self) -> tuple[ReplicaId, ...]:
        """Members, and leavers that hand over their state."""
        sources = tuple(t.source for t in self.transfers if t.source not in self.members)
        return (*self.members, *dict.fromkeys(sources))

    def transfers_of(self, replica: ReplicaId) -> tuple[tuple[int, Transfer], ...]:
        """The transfers ``replica`` takes part in, with their numbers."""
        return tuple((i, t) for i, t in enumerate(self.transfers) if replica in t.participants())


@dataclass(frozen=True)
class Cost:
    """What one membership change cost one member.

    Attributes:
        pause_s: From reaching the switch boundary to holding the next batch.
        transfer_s: The part of ``pause_s`` in which state moved.
        bytes_moved: State sent by this member.
    """

    pause_s: float = 0.0
    transfer_s: float = 0.0
    bytes_moved: int = 0


def spread_transfers(sources: tuple[ReplicaId, ...], targets: tuple[ReplicaId, ...]) -> tuple[Transfer, ...]:
    """Give every target one source, loading the sources evenly."""
    if not targets:
        return ()
    assert sources, "state has to come from somewhere"
    groups: dict[ReplicaId, list[ReplicaId]] = {}
    for i, target in enumerate(targets):
        groups.setdefault(sources[i % len(sources)], []).append(target)
    return tuple(Transfer(source, tuple(group)) for source, group in groups.items())


def rank_order(members: tuple[ReplicaId, ...], slots: dict[ReplicaId, Slot]) -> tuple[ReplicaId, ...]:
    """Members of one node next to each other, so that a ring crosses each NIC once; otherwise as given."""
    nodes = list(dict.fromkeys(slots[m].node for m in members))
    return tuple(sorted(members, key=lambda m: nodes.index(slots[m].node)))


@dataclass(frozen=True)
class Limits:
    """How long the protocol waits for what.

    Attributes:
        heartbeat_s: Replicas report this often.
        suspect_s: A replica silent for this long counts as lost.
        connect_s: A generation's members have this long to connect.
        divergence_s: Ranks may be in different places (one finished, one waiting) for this long.
        start_s: A replica has this long from its start to its first sign of life.
        newcomer_patience: A replica that is no member yet may be silent this many times longer.
        ask_again_s: A shortage of slots is repeated this often.
        fence_s: A replica that beats but does not answer a fence for this long counts as lost.
    """

    heartbeat_s: float = 0.5
    suspect_s: float = 5.0
    connect_s: float = 30.0
    divergence_s: float = 10.0
    start_s: float = 300.0
    ask_again_s: float = 2.0
    newcomer_patience: float = 6.0
    fence_s: float = 60.0


@dataclass(frozen=True)
class Bounds:
    """How many replicas a job may have, and what it forgives.

    Attributes:
        max_failures: Lost replicas (nodes, processes) before the job fails.
        max_user_errors: Exceptions of the user's loop answered by a restart from the checkpoint.
        replace_lost: Start a replacement for a lost replica where a slot is free.
    """

    min_replicas: int
    max_replicas: int
    max_failures: int = 8
    max_user_errors: int = 0
    replace_lost: bool = True
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        assert 1 <= self.min_replicas <= self.max_replicas
