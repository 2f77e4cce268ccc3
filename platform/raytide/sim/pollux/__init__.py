"""The Pollux job model (Qiao et al., OSDI'21): how fast a measured application trains on given GPUs.

The tables are read in place from a copy of the public data (``simulator/traces`` of Pollux's artefact);
raytide ships none of them. Nothing here has a clock or randomness: states and times come in as values.
"""

from raytide.sim.pollux.application import Application, Limits, Validation
from raytide.sim.pollux.loading import load_application, load_applications
from raytide.sim.pollux.progress import (
    JobProgress,
    Running,
    advance,
    iteration_time,
    time_to_completion,
)
from raytide.sim.pollux.step_time import NotMeasuredError, Placement, StepTimes, Times, canonical
from raytide.sim.pollux.tables import TableError

__all__ = [
    "Application",
    "JobProgress",
    "Limits",
    "NotMeasuredError",
    "Placement",
    "Running",
    "StepTimes",
    "TableError",
    "Times",
    "Validation",
    "advance",
    "canonical",
    "iteration_time",
    "load_application",
    "load_applications",
    "time_to_completion",
]
