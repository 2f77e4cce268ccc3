"""Gittins index: who is most likely to finish soon, by what finished jobs have needed.

Source: Gu et al., *Tiresias*, NSDI 2019, section 4.2 (2D-Gittins); the index: Gittins, *Bandit Processes and Dynamic
Allocation Indices*, 1979; Aalto, Ayesta and Righter, *On the Gittins Index in the M/G/1 Queue*, 2009.

Rule: a job that has attained ``a`` GPU seconds has the index ``max over d of P(ends within d) / E[served within d]``,
where the distribution is that of finished jobs which needed more than ``a``. At every event jobs go in the order of
their index, running ones first on ties, then by submission; who does not fit is skipped or preempted.
Limits: rigid jobs, free preemption. Jobs are put in order at events only, not while their index changes in between.
Until jobs have finished nothing is known and all go in the order of submission.
Starvation: possible; a job that has attained more than any before it comes last.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from itertools import accumulate
from math import floor, log10

from raytide.core import Decision, EventDriven, Job, JobState, View
from raytide.policies.budget import needs, walk

STEPS_PER_DECADE = 8
"""Attained service is compared on a logarithmic grid of this fineness: finer ones only cost time."""
RELEARN_GROWTH = 1.05
"""Indices are computed anew when the number of known jobs has grown by this factor."""


class Gittins:
    """Index by attained service.

    Args:
        sample_gpu_s: GPU seconds that earlier jobs needed; more are learned from the jobs that finish.
    """

    name = "gittins"
    clock = EventDriven()

    def __init__(self, sample_gpu_s: Iterable[float] = ()) -> None:
        self._sample = sorted(sample_gpu_s)
        self._index_at: dict[int, float] = {}
        self._learned_from = 0

    def decide(self, view: View) -> Decision:
        """Learn from who ended, then walk from the highest index to the lowest."""
        for job in view.ended:
            if job.state is JobState.SUCCEEDED:
                insort(self._sample, job.attained_gpu_s(view.now))
        if len(self._sample) > RELEARN_GROWTH * self._learned_from:
            self._index_at.clear()
            self._learned_from = len(self._sample)
        return walk(view, sorted(view, key=lambda job: (-self.index(job, view.now), not job.gpus, job.seniority)))

    def index(self, job: Job, now: float) -> float:
        """The job's index, in 1 / GPU seconds."""
        level = _level(job.attained_gpu_s(now))
        known = self._index_at.get(level)
        if known is None:
            known = self._index_at[level] = gittins_index(self._sample, _attained(level))
        return known

    def why_waiting(self, view: View, job: Job) -> str:
        """How many are more likely to finish soon, and what is missing."""
        mine = self.index(job, view.now)
        ahead = sum(1 for other in view if self.index(other, view.now) > mine)
        return f"{ahead} jobs are more likely to finish soon: {needs(view, job)}"


def _level(attained_gpu_s: float) -> int:
    """Place on the grid: 0 for less than one GPU second."""
    return 0 if attained_gpu_s < 1.0 else 1 + floor(log10(attained_gpu_s) * STEPS_PER_DECADE)


def _attained(level: int) -> float:
    """The least attained service of a place on the grid."""
    return 0.0 if not level else 10.0 ** ((level - 1) / STEPS_PER_DECADE)


def gittins_index(sample: list[float], attained: float) -> float:
    """The index of a job that has attained so much, if it is like those of the sample.

    Args:
        sample: What jobs needed in all, ascending.
        attained: What this one has had, in the same unit.

    Returns:
        Ends per unit of service for the best stopping point; 0 if no known job needed more.
    """
    left = [needed - attained for needed in sample[bisect_right(sample, attained) :]]
    count = len(left)
    return max(
        (
            (place + 1) / (done + (count - place - 1) * quantum)
            for place, (quantum, done) in enumerate(zip(left, accumulate(left), strict=True))
        ),
        default=0.0,
    )
