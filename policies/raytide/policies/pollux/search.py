"""A genetic search over allocation matrices: slots by candidate, job and node, all candidates at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raytide.core import Job
from raytide.policies.pollux.problem import Bools, Floats, Ints, Problem

FLOOR = 0.001
"""Added to every worth, so that the mean is defined where jobs hold nothing."""

MOVES = 3
"""Jobs that a mutation places anew, one after another."""

SMALL_MOVES = 0.5
"""The part of these that only grows or shrinks by one step."""

MOST_CELLS = 4_000_000
"""Numbers in one population; of larger matrices there are fewer."""

LEAST_GENERATIONS = 4
CELLS_PER_GENERATION = 4
"""Small matrices need fewer generations: one for so many numbers, and never fewer than those."""


class Search:
    """Finds good allocations; what it found last is where it begins next.

    Args:
        rng: Draws everything.
        candidates: Matrices that are kept.
        generations: Times that they are renewed in one search; fewer where matrices are small.
    """

    def __init__(self, rng: np.random.Generator, candidates: int, generations: int) -> None:
        self._rng = rng
        self._candidates = candidates
        self._generations = generations
        self._jobs: Sequence[Job] = ()
        self._nodes: Sequence[str] = ()
        self._population = np.zeros((0, 0, 0), dtype=np.int64)

    def best(self, problem: Problem) -> Ints:
        """The best allocation found; shape (jobs, nodes)."""
        wanted = min(self._candidates, max(4, MOST_CELLS // problem.base.size))
        population = self._remembered(problem, wanted)
        scores = score(problem, population)
        needed = max(LEAST_GENERATIONS, problem.base.size // CELLS_PER_GENERATION)
        for _ in range(min(self._generations, needed)):
            children = self._children(problem, population, scores, wanted)
            population = np.concatenate([population, children])
            scores = np.concatenate([scores, score(problem, children)])
            fittest = self._fittest(population, scores, wanted)
            population, scores = population[fittest], scores[fittest]
        self._jobs, self._nodes, self._population = problem.jobs, problem.nodes, population
        found: Ints = population[scores.argmax()]
        return found

    def _remembered(self, problem: Problem, wanted: int) -> Ints:
        """The present allocation, and the last population without who left."""
        last = self._population[: wanted - 1]
        found = np.zeros((len(last) + 1, *problem.base.shape), dtype=np.int64)
        found[0] = problem.base
        jobs = {job.job: number for number, job in enumerate(self._jobs)}
        nodes = {node: number for number, node in enumerate(self._nodes)}
        rows = [(new, jobs[job.job]) for new, job in enumerate(problem.jobs) if job.job in jobs]
        columns = [(new, nodes[node]) for new, node in enumerate(problem.nodes) if node in nodes]
        if rows and columns:
            (new_rows, old_rows), (new_columns, old_columns) = np.array(rows).T, np.array(columns).T
            found[1:, new_rows[:, None], new_columns] = last[:, old_rows[:, None], old_columns]
        return repaired(problem, found)

    def _children(self, problem: Problem, population: Ints, scores: Floats, wanted: int) -> Ints:
        """Each of two parents, with a few jobs placed anew."""
        mother, father = self._winners(scores, wanted), self._winners(scores, wanted)
        from_mother = self._rng.random((wanted, len(problem.jobs))) < self._rng.random((wanted, 1))
        children = repaired(problem, np.where(from_mother[:, :, None], population[mother], population[father]))
        free = problem.capacity - children.sum(axis=1)
        for _ in range(MOVES):
            self._place_anew(problem, children, free)
        return within_limits(problem, children)

    def _winners(self, scores: Floats, count: int) -> Ints:
        """Of two candidates drawn, the better one."""
        first, second = self._rng.integers(len(scores), size=(2, count))
        winners: Ints = np.where(scores[first] >= scores[second], first, second)
        return winners

    def _place_anew(self, problem: Problem, children: Ints, free: Ints) -> None:
        """Change the size of one job of each child, and what it has free: on one node if any has room, else across."""
        every = np.arange(len(children))
        job = self._rng.integers(len(problem.jobs), size=len(children))
        before = children[every, job]
        children[every, job] = 0
        free += before
        wanted = self._sizes(problem, job, before.sum(axis=1))
        liking = np.where(before > 0, 0.5, 0.0) + 0.4 * self._rng.random(free.shape)
        rows = _on_one_node(free, wanted, liking)
        missed = ~rows.any(axis=1)
        if missed.any():
            usable = np.where(_spanned(problem, children[missed]), 0, free[missed])
            rows[missed] = _on_several_nodes(usable, wanted[missed], liking[missed])
        rows *= (worths(problem, job, rows) > 0)[:, None]
        children[every, job] = rows
        free -= rows

    def _sizes(self, problem: Problem, job: Ints, have: Ints) -> Ints:
        """New sizes: one step from what there is, or any."""
        least, most, step = problem.least[job], problem.most[job], problem.step[job]
        growth, choice, which = self._rng.random((3, len(job)))
        near = have + np.where(growth < 0.5, step, -step)
        choices = np.maximum((most - least) // step + 1, 1)
        far = least + (choice * choices).astype(np.int64) * step
        return np.clip(np.where(which < SMALL_MOVES, near, far), least, np.maximum(least, most))

    def _fittest(self, population: Ints, scores: Floats, wanted: int) -> Ints:
        """The best ones, equal matrices once."""
        keys = population.reshape(len(population), -1) @ self._rng.random(population[0].size)
        _, unlike = np.unique(keys, return_index=True)
        ranked: Ints = unlike[np.argsort(-scores[unlike], kind="stable")]
        return ranked[:wanted]


# --- what an allocation is worth ------------------------------------------------------------------
def score(problem: Problem, population: Ints) -> Floats:
    """Harmonic means of what jobs progress; shape (candidates,)."""
    worth = worths(problem, np.arange(len(problem.jobs)), population)
    moved = (population != problem.base).any(axis=2)
    terms = worth * np.where(moved, problem.kept, 1.0) + FLOOR
    means: Floats = 1.0 / (1.0 / terms).mean(axis=1)
    return means


def worths(problem: Problem, jobs: Ints, rows: Ints) -> Floats:
    """What rows of slots, shape (..., nodes), are worth to these jobs; 0 for sizes that they cannot have."""
    gpus = rows.sum(axis=-1)
    largest = problem.worth.shape[2] - 1
    spanning = ((rows > 0).sum(axis=-1) > 1).astype(np.int64)
    found: Floats = np.where(gpus <= largest, problem.worth[jobs, spanning, np.minimum(gpus, largest)], 0.0)
    return found


# --- what an allocation may be --------------------------------------------------------------------
def repaired(problem: Problem, population: Ints) -> Ints:
    """Slots taken from later jobs until nodes are not too full, and no two jobs that span nodes share one."""
    held = population > 0
    spanning = held & (held.sum(axis=2) > 1)[:, :, None]
    seen = np.cumsum(spanning, axis=1) + problem.crowded
    population = np.where(spanning & (seen > 1), 0, population)
    filled = np.minimum(np.cumsum(population, axis=1), problem.capacity)
    population = np.diff(filled, axis=1, prepend=0)
    possible = worths(problem, np.arange(len(problem.jobs)), population) > 0
    return within_limits(problem, population * possible[:, :, None])


def within_limits(problem: Problem, population: Ints) -> Ints:
    """Later jobs of a tenant beyond its limit hold nothing."""
    for below, limit in problem.limits:
        gpus = population.sum(axis=2) * below
        population = population * ~(below & (np.cumsum(gpus, axis=1) > limit))[:, :, None]
    return population


def _spanned(problem: Problem, population: Ints) -> Bools:
    """Nodes with a job that spans nodes; shape (candidates, nodes)."""
    held = population > 0
    spanning = held & (held.sum(axis=2) > 1)[:, :, None]
    found: Bools = spanning.any(axis=1) | problem.crowded
    return found


def _on_one_node(free: Ints, wanted: Ints, liking: Floats) -> Ints:
    """All on the fullest node with room for it, of equal ones the one that is liked more; 0 where there is none."""
    fitting = free >= wanted[:, None]
    node = np.where(fitting, free - liking, np.inf).argmin(axis=1)
    rows = np.zeros_like(free)
    every = np.arange(len(free))
    rows[every, node] = np.where(fitting[every, node], wanted, 0)
    return rows


def _on_several_nodes(usable: Ints, wanted: Ints, liking: Floats) -> Ints:
    """As much as there is of what is wanted, from the emptiest nodes on."""
    order = np.argsort(-(usable + liking), axis=1)
    there = np.take_along_axis(usable, order, axis=1)
    filled = np.minimum(np.cumsum(there, axis=1), wanted[:, None])
    rows = np.zeros_like(usable)
    np.put_along_axis(rows, order, np.diff(filled, axis=1, prepend=0), axis=1)
    return rows
