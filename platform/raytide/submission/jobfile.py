"""Job files: what a tenant hands in, checked field by field.

::

    name: resnet-7
    kind: elastic
    loop: raytide.jobs.digits:loop
    config: {epochs: 40}
    workers: 1:8
    deadline: 2h
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, Field, JsonValue, model_validator

from raytide.core.model import JobId, JobSpec, Role, TenantId
from raytide.errors import ConfigError
from raytide.submission.parts import STRICT, Retries, RuntimeEnv
from raytide.submission.values import MOST_PROCESSES, Command, Deadline, ImportPath, Name, Range, Seconds
from raytide.yamlfile import YamlFile, parse_yaml
from raytide.yamlfile.words import shortened

GANG_VARIABLES = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"}
)
"""What the processes of a gang find in their environment."""


class _Job(BaseModel):
    """What jobs of both kinds have."""

    model_config = STRICT

    name: Name | None = None
    """Unique on the platform; made up if it is left out."""
    tenant: str | None = Field(default=None, min_length=1)
    """Whose job it is; by default the tenant's whose token hands it in."""
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000)
    """Higher goes first, where the policy looks at it."""
    preemptible: bool = True
    """It may be suspended for others."""
    deadline: Deadline | None = None
    """When it has to be done: a length of time from its submission (2h), or an instant with its time zone."""
    work: float | None = Field(default=None, gt=0)
    """How much there is to do, in seconds times the unit in which speeds of its model are known."""
    duration: Seconds | None = None
    """How long it runs at the size that it asks for."""
    model: str = ""
    """The name by which its speeds are looked up; by default its loop."""
    runtime_env: RuntimeEnv = RuntimeEnv()
    """What its processes need, as Ray knows it."""
    storage: str = ""
    """Folder or URL for its checkpoints, which every node reaches; by default the platform's."""
    retries: Retries = Retries()
    """What is forgiven before the job fails."""

    def deadline_s(self, submitted_s: float) -> float | None:
        """The deadline in seconds since 1970, of a job handed in at ``submitted_s``."""
        if isinstance(self.deadline, datetime):
            return self.deadline.timestamp()
        return None if self.deadline is None else submitted_s + self.deadline

    def _spec(
        self, job: JobId, tenant: TenantId, submitted_s: float, role: Role, requested: int, model: str
    ) -> JobSpec:
        deadline_s = self.deadline_s(submitted_s)
        if deadline_s is not None and deadline_s <= submitted_s:
            raise ConfigError("deadline", f"{self.deadline} is over", "Give a later one, or leave it out")
        return JobSpec(
            job,
            tenant,
            submitted_s,
            (role,),
            requested,
            self.priority,
            self.preemptible,
            duration_s=self.duration,
            work=self.work,
            deadline_s=deadline_s,
            model=self.model or model,
        )


class ElasticJob(_Job):
    """A training loop whose number of replicas changes while it trains."""

    kind: Literal["elastic"]
    """Its processes come and go."""
    loop: ImportPath
    """Where the training loop is: package.module:function."""
    config: dict[str, JsonValue] = {}
    """The argument of the loop."""
    workers: Range
    """Least and most replicas, 1:8; one number means always that many."""
    start_workers: int | None = None
    """Replicas to start with; the least by default."""
    checkpoint_every: Seconds | None = None
    """Write a checkpoint at the next boundary after this long; otherwise only when the loop or a command asks."""

    @model_validator(mode="after")
    def _check(self) -> ElasticJob:
        least, most = self.workers
        start = self.start_workers
        if start is not None and not least <= start <= most:
            problem = f"{shortened(start)} is outside {least}:{most}"
            raise ConfigError("start_workers", problem, "Give a number inside workers")
        return self

    def to_spec(self, job: JobId, tenant: TenantId, submitted_s: float) -> JobSpec:
        """The job for the scheduler.

        Args:
            job: Its id.
            tenant: Whose it is, now that its token is known.
            submitted_s: When it was handed in, in seconds since 1970.

        Raises:
            ConfigError: Its deadline is over.
        """
        role = Role("replica", *self.workers)
        return self._spec(job, tenant, submitted_s, role, self.start_workers or role.least, self.loop)


class RigidJob(_Job):
    """Processes that start and end together."""

    kind: Literal["rigid"]
    """Its processes are all there, or none."""
    entrypoint: Command
    """The command that each of its processes runs."""
    gpus: int = Field(ge=1, le=MOST_PROCESSES)
    """How many it holds."""
    launch: Literal["gang", "driver"] = "gang"
    """gang: one process for each GPU, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in its
    environment. driver: one process that places its own workers on the nodes of the job, as Ray Train does."""

    @model_validator(mode="after")
    def _check(self) -> RigidJob:
        taken = sorted(GANG_VARIABLES & self.runtime_env.env_vars.keys())
        if taken and self.launch == "gang":
            problem = f"env_vars sets {', '.join(taken)}, which a gang is given"
            raise ConfigError("runtime_env", problem, "Leave it out, or write launch: driver")
        relative_s = self.deadline if isinstance(self.deadline, float) else None
        if relative_s is not None and self.duration is not None and relative_s < self.duration:
            problem = f"{relative_s:g} s are shorter than its duration of {self.duration:g} s"
            raise ConfigError("deadline", problem, "Give a later one, or more GPUs and a shorter duration")
        return self

    def to_spec(self, job: JobId, tenant: TenantId, submitted_s: float) -> JobSpec:
        """The job for the scheduler; arguments and errors as in :meth:`ElasticJob.to_spec`."""
        return self._spec(job, tenant, submitted_s, Role("replica", self.gpus, self.gpus), self.gpus, "")


JobFile: TypeAlias = ElasticJob | RigidJob
_KINDS: dict[str, type[ElasticJob | RigidJob]] = {"elastic": ElasticJob, "rigid": RigidJob}


class _Kind(BaseModel):
    """The one field that says which others there are."""

    kind: Literal["elastic", "rigid"]


def parse_job(text: str, file: str) -> JobFile:
    """The job that a YAML document describes.

    Args:
        text: The document.
        file: Its name, for errors.

    Raises:
        ConfigError: It is malformed, or asks for what makes no sense.
    """
    source = parse_yaml(text, file)
    kind = source.read(_Kind).kind
    _refuse_other_kinds(source, kind)
    return source.read(_KINDS[kind])


def _refuse_other_kinds(source: YamlFile, kind: str) -> None:
    """Tell a field of another kind from one that nobody knows."""
    for name in source.value:
        others = [other for other, model in _KINDS.items() if name in model.model_fields]
        if others and kind not in others:
            error = ConfigError(
                f"field {name!r}", f"{kind} jobs have none", f"Leave it out, or write kind: {others[0]}"
            )
            raise source.refuse((name,), error)
