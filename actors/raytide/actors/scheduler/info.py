"""What everybody may know of a job, and of the platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from raytide.actors.scheduler.book import Book, Page
from raytide.actors.scheduler.work import storage_of
from raytide.core import Controller, JobSpec, Past
from raytide.state import JobRow, Work


@dataclass(frozen=True)
class JobInfo:
    """A job, for people.

    Attributes:
        job: Its name.
        tenant: Whose it is.
        state: Where it is in its life.
        reason: Why; of a waiting job, what it waits for.
        position: Its place in the queue, from 1; 0 if it does not wait.
        least: Processes without which it does not run.
        most: Processes beyond which it is given none.
        count: Processes it has.
        gpus: Slots it holds.
        nodes: Where, as ``(name, slots)``.
        done: Samples it has trained on.
        work: Of so many, if that was declared.
        failures: How often it came to harm, by whose fault.
        story: What happened to it.
        kind: ``elastic`` or ``rigid``; empty where many jobs that are over are listed.
        storage: Root of its checkpoints and logs; empty likewise.
        queued_s: Since when it waits, if it does.
    """

    job: str
    tenant: str
    state: str
    reason: str
    position: int
    priority: int
    preemptible: bool
    least: int
    most: int
    count: int
    gpus: int
    nodes: tuple[tuple[str, int], ...]
    submitted_s: float
    first_start_s: float | None
    ended_s: float | None
    deadline_s: float | None
    resizes: int
    suspensions: int
    attained_gpu_s: float
    work: float | None
    done: float = 0.0
    step: int = 0
    epoch: int = 0
    generation: int = 0
    samples_per_s: float = 0.0
    checkpoint: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    result: str = ""
    story: tuple[str, ...] = ()
    kind: str = ""
    storage: str = ""
    queued_s: float = 0.0

    @property
    def ended(self) -> bool:
        """It is over."""
        return self.ended_s is not None


@dataclass(frozen=True)
class NodeInfo:
    """A node, for people. ``held`` are slots by job, ``taken`` those that others use."""

    node: str
    name: str
    slots: int
    gpu_type: str
    open: bool
    taken: int
    held: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PlatformInfo:
    """The platform at one instant.

    Attributes:
        policy: How many slots each job has.
        placer: Where they are.
        incarnation: How often its scheduler has started.
        tick_s: What the last decision took.
        nodes: All nodes.
        jobs: All jobs that have not ended.
        usage: Slots by tenant, those of tenants below it included.
        slot: Ray resources of one slot.
    """

    policy: str
    placer: str
    incarnation: int
    tick_s: float
    nodes: tuple[NodeInfo, ...]
    jobs: tuple[JobInfo, ...]
    usage: Mapping[str, int]
    slot: Mapping[str, float] = field(default_factory=dict)


def live_jobs(controller: Controller, book: Book) -> list[JobInfo]:
    """All jobs that have not ended, in the order in which they were handed in."""
    places = {job.job: place for place, job in enumerate(controller.table.queue(), 1)}
    return [_live(controller, name, page, places.get(name, 0)) for name, page in book.pages.items()]


def live_job(controller: Controller, book: Book, name: str) -> JobInfo | None:
    """One of them; None if it is not among them."""
    if name not in book.pages:
        return None
    job, queue = controller.table[name], controller.table.queue()
    return _live(controller, name, book.pages[name], queue.index(job) + 1 if job.waiting else 0)


def node_infos(controller: Controller) -> tuple[NodeInfo, ...]:
    """All nodes."""
    cluster = controller.table.cluster
    held: dict[str, list[tuple[str, int]]] = {}
    for job, placement in cluster.held.items():
        for node, count in placement.gpus:
            held.setdefault(node, []).append((job, count))
    return tuple(
        NodeInfo(
            node.node,
            node.labels.get("name", node.node),
            node.gpus,
            node.gpu_type,
            cluster.is_open(node.node),
            cluster.taken_on(node.node),
            tuple(held.get(node.node, ())),
        )
        for node in cluster.nodes
    )


def ended_job(row: JobRow, work: Work | None = None) -> JobInfo:
    """A job that is over, from the store."""
    more: dict[str, object] = {"failures": row.failures, "result": row.result}
    if work is not None:
        more |= {"kind": work.kind, "storage": storage_of(work)}
    return _info(row.spec, row.past, row.past.reason, 0, (), more)


def _live(controller: Controller, name: str, page: Page, position: int) -> JobInfo:
    table = controller.table
    job = table[name]
    past = table.past(controller.now, job)
    names = {node.node: node.labels.get("name", node.node) for node in table.cluster.nodes}
    nodes = tuple((names.get(node, node), count) for node, count in past.placement.gpus)
    more: dict[str, object] = {
        "failures": dict(page.failures),
        "kind": page.work.kind,
        "storage": storage_of(page.work),
    }
    if page.status is not None:
        status = page.status
        known = ("done", "step", "epoch", "generation", "samples_per_s", "checkpoint", "metrics")
        more |= {field_: getattr(status, field_) for field_ in known}
    return _info(job.spec, past, controller.explain(name), position, nodes, more)


def _info(
    spec: JobSpec,
    past: Past,
    reason: str,
    position: int,
    nodes: tuple[tuple[str, int], ...],
    more: Mapping[str, object],
) -> JobInfo:
    first = spec.roles[0]
    return JobInfo(
        job=spec.job,
        tenant=spec.tenant,
        state=str(past.state),
        reason=reason,
        position=position,
        priority=spec.priority,
        preemptible=spec.preemptible,
        least=first.least,
        most=first.most,
        count=past.shape[first.name],
        gpus=spec.gpus(past.shape),
        nodes=nodes,
        submitted_s=spec.submitted_s,
        first_start_s=past.first_start_s,
        ended_s=past.ended_s,
        deadline_s=spec.deadline_s,
        resizes=past.resizes,
        suspensions=past.suspensions,
        attained_gpu_s=past.attained_gpu_s,
        work=spec.work,
        story=past.story,
        queued_s=past.queued_s,
        **more,  # type: ignore[arg-type]  # fields by name, from a status or a row
    )
