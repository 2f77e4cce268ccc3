"""The nouns of scheduling as frozen values: nodes, jobs, shapes and placements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

from raytide.core.batch import BatchLimits
from raytide.errors import ConfigError

NodeId: TypeAlias = str
JobId: TypeAlias = str
TenantId: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with GPUs of one type.

    Attributes:
        node: Its id.
        gpus: Slots it has.
        gpu_type: What kind they are; speeds of jobs are keyed by it.
        labels: ``rack`` and ``domain`` say where it is; others are the platform's own.
    """

    node: NodeId
    gpus: int
    gpu_type: str = "gpu"
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise ConfigError(f"node {self.node}: gpus", f"{self.gpus} GPUs", "Give 1 or more, or leave the node out")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job's GPUs are.

    Attributes:
        gpus: Number of GPUs on each node, by node id in the order they were chosen; no zeros.
    """

    gpus: tuple[tuple[NodeId, int], ...] = ()

    @property
    def total(self) -> int:
        """GPUs in all."""
        return sum(count for _, count in self.gpus)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Nodes it touches."""
        return tuple(node for node, _ in self.gpus)

    def __bool__(self) -> bool:
        return bool(self.gpus)


NOWHERE = Placement()


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of process of a job.

    Attributes:
        name: ``replica``, or ``worker`` and ``server``.
        least: Processes without which the job cannot run (a gang).
        most: Processes beyond which it is not given any.
        gpus: GPUs of one process, all on one node.
    """

    name: str
    least: int
    most: int
    gpus: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            problem = f"from {self.least} to {self.most} is no range"
            raise ConfigError(f"role {self.name}", problem, "Give 1 <= least <= most")
        if self.gpus < 0:
            raise ConfigError(f"role {self.name}: gpus", f"{self.gpus} is negative", "Give 0 or more")


@dataclass(frozen=True, slots=True)
class Shape:
    """How many processes of each role a job has or shall have. The empty shape holds nothing.

    Attributes:
        counts: ``(role, count)`` in the order of the job's roles; no zeros.
    """

    counts: tuple[tuple[str, int], ...] = ()

    def __getitem__(self, role: str) -> int:
        return dict(self.counts).get(role, 0)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        return " + ".join(f"{count} {role}{'s' * (count > 1)}" for role, count in self.counts) or "nothing"


NOTHING = Shape()


@lru_cache(maxsize=4096)
def replicas(count: int) -> Shape:
    """The shape of an elastic or rigid job with ``count`` replicas."""
    return Shape((("replica", count),)) if count else NOTHING


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a tenant submitted.

    Attributes:
        job: Its id.
        tenant: Whose it is.
        submitted_s: When, on the clock of the controller.
        roles: The processes it consists of.
        requested: Replicas (or workers) that were asked for; what a policy without elasticity gives.
        priority: Higher goes first, where the policy looks at it.
        preemptible: It may be suspended for others.
        duration_s: Declared run time at the requested shape; None if nobody said.
        work: Declared work in all, in the unit of the speed model of :attr:`model` times seconds; None likewise.
        deadline_s: When it has to be done, on the clock of the controller.
        model: Name of what it trains, by which speeds are looked up.
        batch: Batch sizes that may be chosen for it; None if its batch is fixed. Its work then counts epochs.
    """

    job: JobId
    tenant: TenantId
    submitted_s: float
    roles: tuple[Role, ...] = (Role("replica", 1, 1),)
    requested: int = 1
    priority: int = 0
    preemptible: bool = True
    duration_s: float | None = None
    work: float | None = None
    deadline_s: float | None = None
    model: str = ""
    batch: BatchLimits | None = None

    def __post_init__(self) -> None:
        where = f"job {self.job}"
        if not self.roles or len({role.name for role in self.roles}) != len(self.roles):
            raise ConfigError(f"{where}: roles", "none, or two of one name", "Give every role once")
        first = self.roles[0]
        if not first.least <= self.requested <= first.most:
            problem = f"{self.requested} is outside {first.least} to {first.most}"
            raise ConfigError(f"{where}: requested", problem, "Ask for a number of processes inside the range")
        for name, value in (("duration_s", self.duration_s), ("work", self.work)):
            if value is not None and not value > 0:
                raise ConfigError(f"{where}: {name}", f"{value} is not positive", "Give a number above 0, or None")

    @property
    def is_elastic(self) -> bool:
        """Its only role has a number of processes that may change."""
        return len(self.roles) == 1 and self.roles[0].least < self.roles[0].most

    @property
    def least_shape(self) -> Shape:
        """The smallest gang that runs."""
        return Shape(tuple((role.name, role.least) for role in self.roles))

    @property
    def requested_shape(self) -> Shape:
        """What was asked for; roles after the first at their least."""
        first, *others = self.roles
        return Shape(((first.name, self.requested), *((role.name, role.least) for role in others)))

    def with_bounds(self, least: int, most: int, *, preemptible: bool) -> JobSpec:
        """The same job with another range of its first role; what was asked for moves into it.

        Raises:
            ConfigError: It is no range.
        """
        first, *others = self.roles
        roles = (replace(first, least=least, most=most), *others)
        requested = min(max(self.requested, least), most)
        return replace(self, roles=roles, requested=requested, preemptible=preemptible)

    def gpus(self, shape: Shape) -> int:
        """GPUs that ``shape`` of this job holds."""
        if len(shape.counts) == 1:
            name, count = shape.counts[0]
            if name == self.roles[0].name:
                return count * self.roles[0].gpus
        each = {role.name: role.gpus for role in self.roles}
        return sum(count * each[name] for name, count in shape.counts)

    def admits(self, shape: Shape) -> bool:
        """Whether ``shape`` is inside the bounds of every role, or nothing at all."""
        if not shape:
            return True
        counts = dict(shape.counts)
        return len(counts) == len(self.roles) and all(
            role.least <= counts.get(role.name, 0) <= role.most for role in self.roles
        )


def rigid(job: JobId, tenant: TenantId, submitted_s: float, gpus: int, duration_s: float | None = None) -> JobSpec:
    """A gang of ``gpus`` replicas with one GPU each, which never changes its size."""
    role = Role("replica", gpus, gpus)
    return JobSpec(job, tenant, submitted_s, (role,), gpus, duration_s=duration_s)
