"""The trace-driven simulator, and the traces it is driven by: neither Ray nor torch.

``simulate(read_trace("trace.csv"), cluster="16x8", policy="fifo")`` is a whole simulation; what it says is read by
:mod:`raytide.sim.report` and drawn by :mod:`raytide.sim.charts`.
"""

from raytide.core import Costs
from raytide.sim.api import SimOptions, simulate
from raytide.sim.clusters import parse_cluster
from raytide.sim.simulation import SimResult
from raytide.sim.traces import read_trace

__all__ = ["Costs", "SimOptions", "SimResult", "parse_cluster", "read_trace", "simulate"]
