"""Plans of single jobs with deadlines: which sizes they hold from when to when, out of what is free over time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from raytide.core import Job, Shape, SpeedModel, replicas
from raytide.policies.free_time import FreeTime

MARGIN_S = 1e-3
"""Plans end this long before the deadline, because times are added up in floating point."""


@dataclass(frozen=True, slots=True)
class Size:
    """A shape that a job may have.

    Attributes:
        gpus: What it holds.
        speed: Work per second.
        shape: As policies decide it.
    """

    gpus: int
    speed: float
    shape: Shape


def sizes(job: Job, speeds: SpeedModel, limit: float = math.inf) -> tuple[Size, ...]:
    """Sizes worth having, ascending: the least, its doubles, and the most; each is faster than those below.

    None but the least holds more than ``limit`` GPUs. Jobs of several roles have the shape only that they asked for.
    """
    role, *others = job.spec.roles
    if others:
        return (Size(job.requested_gpus, speeds.speed(max(1, job.requested_gpus)), job.requested),)
    found: list[Size] = []
    for count in _counts(role.least, role.most):
        speed = speeds.speed(max(1, count * role.gpus))
        if not found or (speed > found[-1].speed and count * role.gpus <= limit):
            found.append(Size(count * role.gpus, speed, replicas(count)))
    return tuple(found)


def _counts(least: int, most: int) -> Iterator[int]:
    count = least
    while count < most:
        yield count
        count *= 2
    yield most


@dataclass(frozen=True, slots=True)
class Hold:
    """A size that is held for some time."""

    start_s: float
    end_s: float
    size: Size


@dataclass(frozen=True)
class Allotment:
    """What a job holds from now to its end."""

    holds: tuple[Hold, ...]

    @property
    def end_s(self) -> float:
        """When it is done."""
        return self.holds[-1].end_s

    @property
    def gpu_s(self) -> float:
        """GPU time that it takes."""
        return sum((hold.end_s - hold.start_s) * hold.size.gpus for hold in self.holds)

    def take(self, free: FreeTime) -> None:
        """Use it."""
        for hold in self.holds:
            free.take(hold.start_s, hold.end_s, hold.size.gpus)

    def give_back(self, free: FreeTime) -> None:
        """Use it no more."""
        for hold in self.holds:
            free.take(hold.start_s, hold.end_s, -hold.size.gpus)

    def room(self, now: float) -> FreeTime:
        """What it holds from now on, as if only that were free; the last size stays, should the job take longer."""
        room = FreeTime(now, 0)
        for hold in self.holds:
            end_s = math.inf if hold is self.holds[-1] else hold.end_s
            if end_s > now:
                room.take(max(now, hold.start_s), end_s, -hold.size.gpus)
        return room

    def at(self, now: float) -> Size | None:
        """What is held at the first instant."""
        first = self.holds[0]
        return first.size if first.start_s <= now else None

    def next_change_s(self, now: float) -> float:
        """When it holds something else for the next time; infinite if never before its end."""
        return min((hold.start_s for hold in self.holds if hold.start_s > now), default=math.inf)


@dataclass(frozen=True)
class Task:
    """A job as plans see it.

    Attributes:
        job: Which one.
        now: The instant.
        left: Work that is left.
        sizes: What it may hold, ascending.
        held: What it holds; None while it waits.
        delay_s: How long what it holds makes no progress yet.
        change_s: What every start and change of size costs.
    """

    job: Job
    now: float
    left: float
    sizes: tuple[Size, ...]
    held: Size | None
    delay_s: float
    change_s: float

    @property
    def fixed(self) -> bool:
        """Whether it keeps what it holds, because it may not be preempted."""
        return self.held is not None and not self.job.spec.preemptible

    @property
    def has_deadline(self) -> bool:
        """Whether it can be planned for: it has a deadline, and it is known what is left."""
        return self.due_s < math.inf and self.left < math.inf

    @cached_property
    def due_s(self) -> float:
        """When it has to be done; infinite without a deadline."""
        deadline_s = self.job.spec.deadline_s
        return math.inf if deadline_s is None else deadline_s - MARGIN_S

    @cached_property
    def soonest_s(self) -> float:
        """When it would be done with every GPU it can use, from now on."""
        changed_s = self.now + self.change_s + self.left / self.sizes[-1].speed
        return changed_s if self.held is None else min(changed_s, self.kept_s)

    @cached_property
    def kept_s(self) -> float:
        """When it will be done with what it holds."""
        assert self.held is not None
        return self.now + self.delay_s + self.left / self.held.speed

    def keep(self) -> Allotment:
        """What it holds, to the end."""
        assert self.held is not None
        return Allotment((Hold(self.now, self.kept_s, self.held),))

    def cheapest(self, free: FreeTime) -> Allotment | None:
        """The allotment that meets the deadline with the least GPU time; None if none does."""
        found = [self.within(free, most) for most in self.sizes]
        meeting = [allotment for allotment in found if allotment is not None]
        return min(meeting, key=lambda allotment: (allotment.gpu_s, allotment.end_s), default=None)

    def within(self, free: FreeTime, most: Size) -> Allotment | None:
        """Hold as much as there is room for at every time, up to ``most``; None if that is too late."""
        holds: list[Hold] = []
        left, size, ready_s = self.left, self.held, self.now + self.delay_s
        for start_s, end_s, gpus in free.stretches():
            if start_s + left / max(most.speed, size.speed if size else 0.0) > self.due_s:
                return None
            wanted = self._wanted(free, start_s, size, gpus, most)
            if wanted is None:
                size = None
                continue
            if wanted != size:
                size, ready_s = wanted, start_s + self.change_s
            from_s = max(start_s, ready_s)
            done_s = from_s + left / size.speed
            holds.append(Hold(start_s, min(done_s, end_s), size))
            if done_s <= end_s:
                return self._allowed(Allotment(tuple(holds)))
            left -= size.speed * max(0.0, end_s - from_s)
        return None

    def _wanted(self, free: FreeTime, start_s: float, size: Size | None, gpus: int, most: Size) -> Size | None:
        """The size to have from an instant on, when so many are free and it had ``size`` before."""
        fitting = [other for other in self.sizes if other.gpus <= min(gpus, most.gpus)]
        best = fitting[-1] if fitting else None
        if size is None or size.gpus > gpus or best is None:
            return best
        if size.gpus > most.gpus or best == size:
            return best
        lasts_s = free.until(start_s, best.gpus) - start_s
        worth = math.isinf(lasts_s) or (lasts_s - self.change_s) * best.speed > lasts_s * size.speed
        return best if worth and best.gpus > size.gpus else size

    def _allowed(self, allotment: Allotment) -> Allotment | None:
        whole = len(allotment.holds) == 1 or self.job.spec.preemptible
        return allotment if whole and allotment.end_s <= self.due_s else None
