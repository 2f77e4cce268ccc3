"""The default policy, in parts: curves, worth, steps, queue."""

from raytide.policies.tide.policy import Tide

__all__ = ["Tide"]
