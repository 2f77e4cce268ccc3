"""What the scheduler needs of the world: something that starts, changes and ends jobs."""

from __future__ import annotations

from typing import Protocol

from raytide.actors.grants import Grant
from raytide.core.model import JobId
from raytide.state import Work


class Masters(Protocol):
    """Carries out commands. Every call may take long, or raise; a request said again changes nothing."""

    def start(self, job: JobId, work: Work, request: str, grant: Grant) -> None:
        """Start a job on these slots, or go on with it; its status tells when it runs.

        Raises:
            RaytideError: It did not start. It holds nothing then.
        """

    def scale(self, job: JobId, request: str, grant: Grant) -> None:
        """Make it hold exactly these slots; returns when the processes on them train.

        Raises:
            RaytideError: It goes on with what it had.
        """

    def suspend(self, job: JobId, request: str) -> None:
        """Save it and give back its slots; returns when both is done.

        Raises:
            RaytideError: It trains on.
        """

    def stop(self, job: JobId, request: str) -> None:
        """End it; its status tells when its slots are free.

        Raises:
            RaytideError: There is nothing to end.
        """

    def ask(self, job: JobId) -> None:
        """Let it say how it stands.

        Raises:
            RaytideError: It is not there.
        """

    def forget(self, job: JobId) -> None:
        """It has ended: nothing of it is needed any more."""
