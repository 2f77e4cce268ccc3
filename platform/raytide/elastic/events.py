"""What happens to a master: the one argument of :meth:`raytide.elastic.master.Master.handle`."""

from __future__ import annotations

from dataclasses import dataclass

from raytide.elastic.messages import FromReplica, Request
from raytide.elastic.model import ReplicaId, Slot


@dataclass(frozen=True)
class Start:
    """Start the job on ``slots``."""

    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Restarted:
    """The master's process was lost; this one took over the journalled state."""


@dataclass(frozen=True)
class SlotsFound:
    """Free slots for the replacements asked for by ``NeedSlots``: all, some, or none of them."""

    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True)
class From:
    """A message of a replica."""

    replica: ReplicaId
    message: FromReplica


Event = Start | Restarted | SlotsFound | Tick | From | Request
