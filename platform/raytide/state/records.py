"""What the state store takes and gives back, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raytide.core import JobSpec, Node, Past, Tenant, TenantTree
from raytide.core.commands import Command
from raytide.core.events import Event
from raytide.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Work:
    """What a driver needs to start a job; the scheduler does not look into it.

    Attributes:
        kind: ``elastic`` or ``rigid``: which driver.
        settings: JSON text, which that driver validates.
        blobs: Pickles that only the job's own processes open (its loop, its config), by name.
    """

    kind: str
    settings: str = "{}"
    blobs: Mapping[str, bytes] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job as a client handed it in.

    Attributes:
        spec: What the scheduler knows of it.
        work: What its driver knows.
        submission: The client's own key, by which a job that is handed in twice is still one.

    Raises:
        ConfigError: A text that no database takes. One such job would fail the whole round it is written with.
    """

    spec: JobSpec
    work: Work
    submission: str

    def __post_init__(self) -> None:
        texts = {"job": self.spec.job, "tenant": self.spec.tenant, "submission": self.submission}
        texts |= {"kind": self.work.kind, "settings": self.work.settings, "blobs": "".join(self.work.blobs)}
        for name, text in texts.items():
            if "\0" in text or (not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)):
                raise ConfigError(name, "it contains a zero byte or half a character", "Give plain text")


@dataclass(frozen=True, slots=True)
class JobRow:
    """The scheduler's truth of one job.

    Attributes:
        spec: As it is now; its owner may have changed its bounds.
        past: What has become of it.
        failures: How often it failed, by whose fault: ``user``, ``node`` or ``platform``.
        request: Id of the command that is being carried out; empty if there is none.
        error: Why it failed; of an ended job.
        result: What it returned, as JSON text; of an ended job.
    """

    spec: JobSpec
    past: Past
    failures: Mapping[str, int] = field(default_factory=dict, hash=False)
    request: str = ""
    error: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """One tick of the scheduler, written at once.

    Attributes:
        incarnation: Of the scheduler, from :meth:`StateStore.begin_incarnation`.
        number: Of the tick, rising within the incarnation.
        now_s: The clock of the controller.
        events: What it was told.
        commands: What it answered.
        new_jobs: Handed in since the last one, in this order. One without a row in ``jobs`` is pending.
        jobs: What has changed of jobs, new ones too.
        nodes: Joined or changed.
        nodes_gone: Ids of those that went.
    """

    incarnation: int
    number: int
    now_s: float
    events: Sequence[Event] = ()
    commands: Sequence[Command] = ()
    new_jobs: Sequence[NewJob] = ()
    jobs: Sequence[JobRow] = ()
    nodes: Sequence[Node] = ()
    nodes_gone: Sequence[str] = ()


class Recorded(NamedTuple):
    """What a round was told and what it answered, for a replay; see :class:`Round`."""

    number: int
    now_s: float
    events: tuple[Event, ...]
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class StoredTenant:
    """A tenant and what it proves itself with.

    Attributes:
        tenant: Its quota and its place in the tree.
        token_hash: SHA-256 of its token, in hex; empty for one that has none.
        admin: It may do everything.
    """

    tenant: Tenant
    token_hash: str = ""
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Saved:
    """What a scheduler that starts goes on with.

    Attributes:
        jobs: Those that have not ended, in the order in which they were handed in.
        nodes: By id.
        tenants: All of them.
        incarnation: The newest; 0 before the first.
        now_s: The clock of the last round, below which the next one may not begin; 0 before the first.
    """

    jobs: Sequence[tuple[JobRow, Work]]
    nodes: Sequence[Node]
    tenants: TenantTree
    incarnation: int
    now_s: float
