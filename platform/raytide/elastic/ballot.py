"""The vote that members reduce together in every step, and how they read its outcome.

A ballot travels as a short vector of 64-bit integers reduced with MAX. Minimum and maximum of one
figure come from sending it with both signs: all members agree exactly when the two are equal.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

WIDTH = 8
"""Integers of one ballot."""


@dataclass(frozen=True)
class Ballot:
    """One member's vote.

    Attributes:
        connected_to: Number of the planned generation this member is connected to, 0 for none.
        depth: Steps its loader runs ahead: earlier than that a switch would waste loaded data.
        halt: It was told to halt.
        stop: Its loop asked for an early stop.
        place: Fingerprint of where in the program it is.
    """

    connected_to: int
    depth: int
    halt: bool
    stop: bool
    place: int

    def encode(self) -> list[int]:
        """The vector to be reduced with MAX."""
        return [
            self.connected_to,
            -self.connected_to,
            self.depth,
            -int(self.halt),
            int(self.stop),
            self.place,
            -self.place,
            0,
        ]


@dataclass(frozen=True)
class Outcome:
    """What all members decided together.

    Attributes:
        connected_to: The planned generation every member is connected to, 0 if not all are.
        depth: The deepest loader's steps ahead.
        halt: Every member was told to halt.
        stop: At least one loop asked for an early stop.
        together: All members are at the same place of the program.
    """

    connected_to: int
    depth: int
    halt: bool
    stop: bool
    together: bool

    @classmethod
    def decode(cls, reduced: list[int]) -> Outcome:
        """Read the reduced vector."""
        highest, lowest = reduced[0], -reduced[1]
        return cls(
            connected_to=highest if highest == lowest else 0,
            depth=reduced[2],
            halt=reduced[3] == -1,
            stop=bool(reduced[4]),
            together=reduced[5] == -reduced[6],
        )


def fingerprint(*place: object) -> int:
    """A positive 32-bit number for a place of the program, the same in every process."""
    return zlib.crc32(repr(place).encode()) + 1
