"""A simulation together with its table of jobs, which most figures and all charts need."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from raytide.sim.report.jobs import job_table
from raytide.sim.simulation import SimResult


@dataclass(frozen=True)
class Run:
    """A simulation that is over.

    Attributes:
        result: What happened.
        jobs: Its :func:`~raytide.sim.report.jobs.job_table`.
    """

    result: SimResult
    jobs: pd.DataFrame

    @classmethod
    def of(cls, result: SimResult) -> Run:
        """Make the table."""
        return cls(result, job_table(result))
