"""Placers: on which nodes a job's slots are."""

from raytide.policies.placement.random import Random
from raytide.policies.placement.simple import Consolidated, Count, MostFree, Pack, Spread

__all__ = ["Consolidated", "Count", "MostFree", "Pack", "Random", "Spread"]
