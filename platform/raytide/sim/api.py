"""A simulation in one call: a trace, a cluster, a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from raytide.core import Controller, ControllerConfig, Costs, JobSpec, Node, Placer, Policy, Role, TenantTree
from raytide.core.events import Event
from raytide.errors import ConfigError
from raytide.policies.registry import make_placer, make_policy
from raytide.sim.clusters import parse_cluster
from raytide.sim.simulation import SimJob, SimResult, Simulation
from raytide.sim.traces.job import TraceJob
from raytide.sim.workload import Fixed

Progress = Callable[[int, int], None]
"""Told how many jobs are over, and how many there are."""


@dataclass(frozen=True)
class SimOptions:
    """What a simulation has besides jobs, cluster, policy and placer.

    Attributes:
        costs: What starts and changes cost; nothing by default.
        tenants: Quotas.
        faults: Nodes that join, drain or are lost, each with the second in which that happens, in the order of time.
        on_progress: Called after every instant.
        most_gpus: Jobs that need more are refused, others wait for lost nodes; what is there when they come, if None.
    """

    costs: Costs = field(default_factory=Costs)
    tenants: TenantTree = field(default_factory=TenantTree)
    faults: Iterable[tuple[float, Event]] = ()
    on_progress: Progress | None = None
    most_gpus: int | None = None


def simulate(
    trace: Sequence[TraceJob],
    cluster: str | Sequence[Node] = "16x8",
    policy: str | Policy = "tide",
    placer: str | Placer = "pack",
    options: SimOptions | None = None,
) -> SimResult:
    """Simulate a trace to its end: every job asks for the GPUs of the trace and runs as long as the trace says.

    Args:
        trace: The jobs.
        cluster: Nodes, or what :func:`~raytide.sim.clusters.parse_cluster` reads.
        policy: A name (see :func:`~raytide.policies.registry.make_policy`), or a policy that no simulation has used.
        placer: A name, or a placer.
        options: Costs, tenants, faults.

    Raises:
        ConfigError: A name is unknown, the cluster is nonsense, or a job has no duration.
    """
    chosen = options or SimOptions()
    jobs = sim_jobs(trace)
    controller = Controller(
        make_policy(policy) if isinstance(policy, str) else policy,
        make_placer(placer) if isinstance(placer, str) else placer,
        parse_cluster(cluster) if isinstance(cluster, str) else cluster,
        chosen.tenants,
        ControllerConfig(instant=True, most_gpus=chosen.most_gpus, costs=chosen.costs),
    )
    simulation = Simulation(controller, jobs, chosen.faults)
    return simulation.run(_watch(controller, len(jobs), chosen.on_progress))


def sim_jobs(trace: Sequence[TraceJob]) -> list[SimJob]:
    """Jobs of fixed size, with the work that the trace recorded.

    Raises:
        ConfigError: There are none, or the trace does not know how long one of them runs.
    """
    if not trace:
        raise ConfigError("trace", "it has no jobs", "Give at least one")
    unknown = [job.job_id for job in trace if job.duration_s is None]
    if unknown:
        problem = f"{len(unknown)} of {len(trace)} jobs have no duration, first {unknown[0]!r}"
        remedy = (
            "Add durations in seconds or leave those jobs out; jobs whose speed is measured instead (such as Pollux's) "
            "need a workload of their own: raytide.sim.simulation.SimJob, with raytide.sim.pollux for their speeds"
        )
        raise ConfigError("trace", problem, remedy)
    return [_rigid(job) for job in trace]


def _rigid(job: TraceJob) -> SimJob:
    assert job.duration_s is not None
    spec = JobSpec(
        job=job.job_id,
        tenant=job.tenant,
        submitted_s=job.submit_s,
        roles=(Role("replica", job.gpus, job.gpus),),
        requested=job.gpus,
        duration_s=job.duration_s,
        deadline_s=job.deadline_s,
        model=job.model,
    )
    return SimJob(spec, Fixed(job.duration_s))


def _watch(controller: Controller, total: int, tell: Progress | None) -> Callable[[float, int], None] | None:
    if tell is None:
        return None
    live = controller.table.live
    return lambda _now, arrived: tell(arrived - len(live), total)
