"""What changing a job costs it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from raytide.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds without progress that a change costs the job, while it holds its slots.

    Attributes:
        start_s: The first start.
        resume_s: A start after a suspension.
        resize_s: A change of shape or place while it runs.
    """

    start_s: float = 0.0
    resume_s: float = 0.0
    resize_s: float = 0.0

    @property
    def dearest_s(self) -> float:
        """Of any change."""
        return max(self.start_s, self.resume_s, self.resize_s)

    def __post_init__(self) -> None:
        for cost in fields(self):
            value = getattr(self, cost.name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"Costs.{cost.name}", f"{value} is no cost", "Give seconds, 0 or more")
