"""What can go wrong in a group; every error names the group, the operation, the rank and the seconds."""

from __future__ import annotations

from raytide.errors import RaytideError


class CollectiveError(RaytideError):
    """A group, or one operation of it, failed.

    Args:
        group: Name of the group (``"jobname/7"``).
        operation: The operation with its number (``"all_reduce #12 float32[1024]"``) or ``"connect"``.
        rank: The rank that raises.
        seconds: How long the operation had been running, in seconds.
        detail: The cause, in words.
    """

    def __init__(self, group: str, operation: str, rank: int, seconds: float, detail: str) -> None:
        super().__init__(group, operation, rank, seconds, detail)
        self.group = group
        self.operation = operation
        self.rank = rank
        self.seconds = seconds
        self.detail = detail

    def __str__(self) -> str:
        where = f"group {self.group}, rank {self.rank}: {self.operation}"
        return f"{where} failed after {self.seconds:.3f} s: {self.detail}"


class CollectiveTimeout(CollectiveError):
    """An operation did not end within its limit.

    Raised for the caller's own ``wait(timeout_s)``, it leaves the group usable and the operation in flight.
    Raised because the operation's limit (``GroupSpec.timeout_s``) has passed, it is the end of the group.
    """


class CollectiveAborted(CollectiveError):
    """This member, or another one, called ``abort()``; ``detail`` is the reason it gave."""


class PeerLost(CollectiveError):
    """A peer's connections closed without a goodbye: its process ended, or its network did."""


class GroupClosed(CollectiveError):
    """An operation was started on a group after its ``close()``."""


class InvalidOperation(CollectiveError, ValueError):
    """An operation was refused before it started (tensor layout, root, number of outputs)."""


class ConnectTimeout(CollectiveError):
    """Not all members joined in time, or one went away meanwhile; ``detail`` names the ranks."""


class ConnectCancelled(CollectiveError):
    """The ``cancelled`` event given to ``connect`` was set."""


class ConnectRefused(CollectiveError):
    """The name was used before for this rank, or the members disagree about the group's size or backend."""


class BackendUnavailable(CollectiveError):
    """The backend cannot run here; ``detail`` names the remedy."""
