"""Whether a machine and its Ray cluster are fit for raytide: facts are gathered first, then judged."""

from raytide.doctor.facts import Facts
from raytide.doctor.findings import Finding, Level
from raytide.doctor.verdict import diagnose

__all__ = ["Facts", "Finding", "Level", "diagnose"]
