"""Groups of training processes whose membership changes from generation to generation.

A group never changes: a new membership is a new group, connected in the background while the old one lives,
and the old one is closed when the new one has proved itself. See :func:`connect` and :class:`Group`.
"""

from __future__ import annotations

from raytide.collective.connect import connect
from raytide.collective.errors import (
    BackendUnavailable,
    CollectiveAborted,
    CollectiveError,
    CollectiveTimeout,
    ConnectCancelled,
    ConnectRefused,
    ConnectTimeout,
    GroupClosed,
    InvalidOperation,
    PeerLost,
)
from raytide.collective.group import Group
from raytide.collective.spec import GroupSpec, ReduceOp, StoreAddress
from raytide.collective.store import StoreServer
from raytide.collective.work import Work

__all__ = [
    "BackendUnavailable",
    "CollectiveAborted",
    "CollectiveError",
    "CollectiveTimeout",
    "ConnectCancelled",
    "ConnectRefused",
    "ConnectTimeout",
    "Group",
    "GroupClosed",
    "GroupSpec",
    "InvalidOperation",
    "PeerLost",
    "ReduceOp",
    "StoreAddress",
    "StoreServer",
    "Work",
    "connect",
]
