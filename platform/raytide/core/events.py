"""What happens: the controller's input. All events of one instant are applied before one decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from raytide.core.goodput import Training
from raytide.core.model import JobId, JobSpec, Node, NodeId, Shape
from raytide.core.past import Past
from raytide.core.tenants import TenantTree


@dataclass(frozen=True, slots=True)
class Submitted:
    """A tenant handed in a job."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class Restored:
    """A job that a scheduler before this one knew; it goes on where it was, if its nodes are still there."""

    spec: JobSpec
    past: Past


@dataclass(frozen=True, slots=True)
class Started:
    """A started or resumed job trains."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Resized:
    """A resize or migration is done; what it gave back is free."""

    job: JobId


@dataclass(frozen=True, slots=True)
class ResizeFailed:
    """A resize was given up: the job trains on, in the shape it had."""

    job: JobId
    reason: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """A suspended job has saved; its slots are free."""

    job: JobId


@dataclass(frozen=True, slots=True)
class SuspendFailed:
    """A job could not be saved: it trains on, with all that it holds."""

    job: JobId
    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A job ended by itself; its slots are free."""

    job: JobId
    error: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A job that was told to stop is gone; its slots are free."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Crashed:
    """A job lost all its processes through no fault of its own; it queues again."""

    job: JobId
    reason: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The owner does not want the job any more."""

    job: JobId


@dataclass(frozen=True, slots=True)
class SuspendRequested:
    """The owner wants the job to rest until they say otherwise."""

    job: JobId


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """The owner wants a job that they suspended to go on."""

    job: JobId


@dataclass(frozen=True, slots=True)
class BoundsChanged:
    """The owner wants another range of processes of the job's first role.

    Attributes:
        least: Processes without which it does not run.
        most: Processes beyond which it is not given any.
        preemptible: It may be suspended for others.
    """

    job: JobId
    least: int
    most: int
    preemptible: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """A job reported its speed.

    Attributes:
        shape: The shape it had.
        samples_per_s: Throughput of the whole job.
    """

    job: JobId
    shape: Shape
    samples_per_s: float


@dataclass(frozen=True, slots=True)
class Progressed:
    """A job reported how far it is.

    Attributes:
        done: Work done, in the unit of :attr:`~raytide.core.model.JobSpec.work`.
    """

    job: JobId
    done: float


@dataclass(frozen=True, slots=True)
class Trained:
    """A job whose batch size is free reported how it trains.

    Attributes:
        training: Progress, noise and the configuration it runs now (:attr:`~raytide.core.goodput.Training.samples`
            holds what is new; what is known already stays known).
    """

    job: JobId
    training: Training


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node is there."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeTaken:
    """So many slots of a node are used by somebody outside of the platform, in all."""

    node: NodeId
    gpus: int


@dataclass(frozen=True, slots=True)
class NodeDraining:
    """A node will go: nothing new is placed there, and what is there has to move."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is gone, with everything on it."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class TenantsChanged:
    """The platform team changed quotas."""

    tenants: TenantTree


@dataclass(frozen=True, slots=True)
class Timer:
    """The instant came that a :class:`~raytide.core.commands.Wake` asked for."""


Event: TypeAlias = (
    Submitted
    | Restored
    | Started
    | Resized
    | ResizeFailed
    | Suspended
    | SuspendFailed
    | Finished
    | Stopped
    | Crashed
    | CancelRequested
    | SuspendRequested
    | ResumeRequested
    | BoundsChanged
    | Measured
    | Progressed
    | Trained
    | NodeJoined
    | NodeTaken
    | NodeDraining
    | NodeLost
    | TenantsChanged
    | Timer
)
