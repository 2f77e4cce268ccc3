"""What a simulation says, as tables and figures: pure functions of its result."""

from raytide.sim.report.figures import summary
from raytide.sim.report.jobs import SLOWDOWN_BOUND_S, job_table
from raytide.sim.report.rho import fair_ends_s
from raytide.sim.report.run import Run
from raytide.sim.report.seeds import mean_figures, spread_figures
from raytide.sim.report.tenants import tenant_table
from raytide.sim.report.window import Window

__all__ = [
    "SLOWDOWN_BOUND_S",
    "Run",
    "Window",
    "fair_ends_s",
    "job_table",
    "mean_figures",
    "spread_figures",
    "summary",
    "tenant_table",
]
