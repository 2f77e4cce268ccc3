"""Pollux: a genetic search for the slots of all jobs, every round, by their goodput.

Source: Qiao et al., *Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning*, OSDI 2021, section 4.

Rule, every 60 s: of all ways to share out the cluster, take the one with the best harmonic mean of what jobs progress,
each relative to an equal share of the cluster on one node. Where a job would have to move, its term counts for less, by
the part of its life that it has lost to moves, this one included. No two jobs that span nodes share a node. A job is
given at most twice the GPUs it has run with. It chooses its batch itself.
The search is the paper's in kind: a population of allocation matrices, kept from round to round, with tournaments,
crossover, mutation and repair, in which the job with less attained service wins a conflict. It differs in these points:
a mutation places whole jobs anew, instead of changing single numbers, and so needs fewer generations; goodput comes
from the model in :mod:`raytide.core.goodput`, which is fitted in closed form, instead of from a search for seven
coefficients; the first allocation of a job is not counted as a move.
Limits: made for tens of nodes; larger clusters are searched with fewer candidates. A job that may not be preempted
keeps what it has. Tenants' limits hold, their guarantees and weights are not looked at. A job with several roles keeps
the shape it asked for.
Starvation: possible; nobody waits while a GPU is left, but large gangs may, and some of more jobs than GPUs.
"""

from __future__ import annotations

import numpy as np

from raytide.core import NOTHING, Decision, Job, Placement, Rounds, Shape, View, replicas
from raytide.policies.budget import needs, position
from raytide.policies.pollux.problem import Ints, Problem, problem_of
from raytide.policies.pollux.search import Search

ROUND_S = 60.0
CANDIDATES = 100
GENERATIONS = 40
"""At most in every round."""


class Pollux:
    """Goodput, by genetic search.

    Args:
        seed: Of everything that is drawn.
        candidates: Allocations that the search keeps.
        generations: How often it renews them, every round; fewer where there are few jobs.
        round_s: Seconds from one search to the next.
    """

    name = "pollux"

    def __init__(
        self, seed: int = 0, candidates: int = CANDIDATES, generations: int = GENERATIONS, round_s: float = ROUND_S
    ) -> None:
        self.clock = Rounds(round_s)
        self._search = Search(np.random.default_rng(seed), candidates, generations)
        self._settled: Problem | None = None

    def decide(self, view: View) -> Decision:
        """Search, and move whoever is elsewhere in what was found; not again while all is as it was."""
        problem = problem_of(view)
        if not problem.base.size or (self._settled is not None and problem.is_like(self._settled)):
            return Decision()
        shapes: dict[str, Shape] = {}
        placements: dict[str, Placement] = {}
        for job, row in zip(problem.jobs, self._search.best(problem), strict=True):
            placement = _placement(problem, row)
            if sorted(placement.gpus) == sorted(view.cluster.placement(job.job).gpus):
                continue
            shapes[job.job] = _shape(job, placement.total)
            if placement:
                placements[job.job] = placement
        self._settled = None if shapes else problem
        return Decision(shapes, placements=placements)

    def why_waiting(self, view: View, job: Job) -> str:
        """Where it is, and what is missing."""
        return f"{position(view, job)}: {needs(view, job)}; others bring more progress over all jobs"


def _placement(problem: Problem, row: Ints) -> Placement:
    counts = zip(problem.nodes, row.tolist(), strict=True)
    return Placement(tuple((node, count) for node, count in counts if count))


def _shape(job: Job, gpus: int) -> Shape:
    if not gpus:
        return NOTHING
    return replicas(gpus // job.spec.roles[0].gpus) if job.spec.is_elastic else job.requested
