"""Elastic parameter servers: running jobs give up workers and servers so that a newcomer starts at once.

Source: *EPS* (Elastic Parameter Server), TPDS 33(5), 2022, of which only the abstract was at hand: when a job arrives,
a subset of workers and servers is taken from running jobs; when one is killed, the others get more of both. Which and
how many is raytide's own rule, with the step time of Peng et al., *Optimus*, EuroSys 2018, section 3.2.

Rule, at every event: waiting jobs get their least shape in the order of submission. What is missing is taken from
running jobs above theirs, one process at a time, where it slows its job by the smallest factor per GPU; nothing is
taken if all of it would not be enough. Then free GPUs go, one process or one of each role at a time, where they speed a
job up by the largest factor per GPU, to nobody whom they slow down. Growth keeps servers between one fifth and four
fifths of the workers, the range that Angel recommends. Jobs with one role take part in the same way.
Limits: GPUs are never moved between running jobs for gain alone. Servers without GPUs cost nothing here. Growth does
not look beyond one process of each role.
Starvation: possible. Nobody is suspended, so a newcomer waits if the least of everybody is too much; those behind it
wait as well, unless it waits for its tenant's limit: there smaller jobs of the same tenant overtake it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from raytide.core import Decision, EventDriven, Job, JobState, Role, Shape, View
from raytide.policies.budget import Budget, needs, position

SERVERS_PER_WORKER = (0.2, 0.8)

Unit = tuple[Role, ...]
"""What a job is given or loses in one step: a process of each of these roles."""


class Eps:
    """Least-loss reclaim for newcomers, largest-gain growth for all."""

    name = "eps"
    clock = EventDriven()

    def decide(self, view: View) -> Decision:
        """Let in who waits, then hand out what is free."""
        round_ = _Round(view)
        for job in view.queue():
            if not round_.admit(job):
                break
        round_.grow()
        return Decision(round_.changes(), round_.reasons)

    def why_waiting(self, view: View, job: Job) -> str:
        """Where it is, and what is missing."""
        return f"{position(view, job)}: {needs(view, job)}; running jobs have their least"


class _Round:
    """One decision.

    Args:
        view: The instant. Slots that jobs are giving back count as free.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        coming = sum(view.cluster.placement(job.job).total - job.gpus for job in view.holding.values())
        self._budget = Budget(view, view.free_gpus + coming, from_nothing=False)
        self._jobs = {name: job for name, job in view.holding.items() if job.state is JobState.RUNNING}
        self._shapes = {name: job.shape for name, job in self._jobs.items()}
        self.reasons: dict[str, str] = {}

    def changes(self) -> dict[str, Shape]:
        """What is new."""
        return {name: shape for name, shape in self._shapes.items() if shape != self._jobs[name].shape}

    # --- newcomers ---------------------------------------------------------------------------

    def admit(self, job: Job) -> bool:
        """Let a job in with its least; False if it has to wait for GPUs, and others behind it."""
        least = job.spec.least_shape
        gpus = job.spec.gpus(least)
        if self._budget.is_limited(job, gpus):
            return True
        if not self._reclaim(gpus - self._budget.gpus, job):
            return False
        self._budget.take(job, least)
        self._jobs[job.job], self._shapes[job.job] = job, least
        return True

    def _reclaim(self, missing: int, newcomer: Job) -> bool:
        """Take so many GPUs from those whom it slows least; all or nothing."""
        before = dict(self._shapes)
        taken: list[tuple[Job, Role]] = []
        while missing > 0:
            spare = min(self._spare(), key=self._loss, default=None)
            if spare is None:
                self._shapes = before
                return False
            job, role = spare
            self._shapes[job.job] = _with(job, self._shapes[job.job], (role,), -1)
            taken.append(spare)
            missing -= role.gpus
        for job, role in taken:
            self._budget.give_back(job, _shape((role,)))
            self.reasons[job.job] = f"makes room for {newcomer.job}"
        return True

    def _loss(self, spare: tuple[Job, Role]) -> tuple[float, tuple[float, int]]:
        """Orders what could be given, the least missed first; of equals, that of whoever came last."""
        job, role = spare
        return (self._change(job, (role,), -1), _latest_first(job))

    def _spare(self) -> Iterator[tuple[Job, Role]]:
        """Who could give what: processes beyond the least of jobs that were running already."""
        for name, job in self._jobs.items():
            for role in job.spec.roles:
                if job.gpus and role.gpus and self._shapes[name][role.name] > role.least:
                    yield job, role

    # --- growth ------------------------------------------------------------------------------

    def grow(self) -> None:
        """Hand out what is free where it speeds up most, ties by submission."""
        gains = {name: self._gains(job) for name, job in self._jobs.items()}
        while self._budget.gpus > 0:
            units = [(gain, job, unit) for name, job in self._jobs.items() for unit, gain in gains[name].items()]
            best = max(units, key=lambda step: (step[0], _latest_first(step[1])), default=None)
            if best is None:
                return
            _, job, unit = best
            if self._budget.take(job, _shape(unit)):
                self._shapes[job.job] = _with(job, self._shapes[job.job], unit, 1)
                gains[job.job] = self._gains(job)
            else:
                del gains[job.job][unit]

    def _gains(self, job: Job) -> dict[Unit, float]:
        """What one process more, or one of each role, brings where it may be given and brings anything."""
        roles = job.spec.roles
        units: list[Unit] = [(role,) for role in roles] + ([roles] if len(roles) > 1 else [])
        allowed = [unit for unit in units if _is_allowed(job, _with(job, self._shapes[job.job], unit, 1), unit)]
        gains = {unit: -self._change(job, unit, 1) for unit in allowed}
        return {unit: gain for unit, gain in gains.items() if gain > 0}

    def _change(self, job: Job, unit: Unit, more: int) -> float:
        """By which factor the job becomes slower for each GPU of the change, as a logarithm; negative if faster."""
        shape, gpus = self._shapes[job.job], sum(role.gpus for role in unit)
        speed = self._view.shape_speed
        return math.log(speed(job, shape) / speed(job, _with(job, shape, unit, more))) / max(1, gpus)


def _is_allowed(job: Job, grown: Shape, unit: Unit) -> bool:
    """Whether the job may have this shape, and the unit adds nothing of which there is too much already."""
    if not job.spec.admits(grown):
        return False
    added = {role.name for role in unit}
    if {role.name for role in job.spec.roles} != {"worker", "server"}:
        return True
    least, most = SERVERS_PER_WORKER
    workers, servers = grown["worker"], grown["server"]
    return ("server" not in added or servers <= most * workers) and (
        "worker" not in added or servers >= least * workers
    )


def _with(job: Job, shape: Shape, unit: Unit, more: int) -> Shape:
    return Shape(tuple((role.name, shape[role.name] + more * (role in unit)) for role in job.spec.roles))


def _shape(unit: Unit) -> Shape:
    return Shape(tuple((role.name, 1) for role in unit))


def _latest_first(job: Job) -> tuple[float, int]:
    submitted_s, order = job.seniority
    return (-submitted_s, -order)
