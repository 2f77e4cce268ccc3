"""Pollux: allocations by a search over matrices of jobs and nodes."""

from raytide.policies.pollux.policy import Pollux

__all__ = ["Pollux"]
