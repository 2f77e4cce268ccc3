"""What can be wrong with the state store."""

from __future__ import annotations

from raytide.errors import RaytideError


class StateError(RaytideError):
    """The state store cannot be opened, read or written.

    Args:
        place: Which one, without its password.
        problem: What is wrong, on one line.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)

    def __str__(self) -> str:
        place, problem = self.args
        return f"state store {place}: {problem}"


class Superseded(StateError):
    """Another scheduler has begun a newer incarnation: this one may write no more, and has to go."""
