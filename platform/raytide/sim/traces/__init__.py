"""Traces of GPU clusters: public ones read into one kind of job, synthetic ones, and what is in them."""

from raytide.sim.traces.default import read_default, write_trace
from raytide.sim.traces.describe import Percentiles, TraceDescription, describe
from raytide.sim.traces.elasticflow import read_elasticflow
from raytide.sim.traces.errors import TraceError
from raytide.sim.traces.gavel import read_gavel
from raytide.sim.traces.generate import generate
from raytide.sim.traces.job import DEFAULT_TENANT, TraceJob
from raytide.sim.traces.microsoft import read_microsoft
from raytide.sim.traces.philly import read_philly
from raytide.sim.traces.pollux import read_pollux
from raytide.sim.traces.read import read_trace
from raytide.sim.traces.shape import PHILLY_SIZES, Arrivals, Lognormal, SizeShare, SyntheticTrace
from raytide.sim.traces.source import members
from raytide.sim.traces.tiresias import read_tiresias

__all__ = [
    "DEFAULT_TENANT",
    "PHILLY_SIZES",
    "Arrivals",
    "Lognormal",
    "Percentiles",
    "SizeShare",
    "SyntheticTrace",
    "TraceDescription",
    "TraceError",
    "TraceJob",
    "describe",
    "generate",
    "members",
    "read_default",
    "read_elasticflow",
    "read_gavel",
    "read_microsoft",
    "read_philly",
    "read_pollux",
    "read_tiresias",
    "read_trace",
    "write_trace",
]
