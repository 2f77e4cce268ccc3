"""Elastic-Tiresias: Tiresias whose jobs shrink when many wait and grow when GPUs are left.

Source: Wu et al., *Elastic Deep Learning in Multi-Tenant GPU Clusters*, TPDS 33(1), 2022 (EDL), by the rules of the
public port in heyfey/vodascheduler.

Rule, at every event: (1) give jobs what they requested, in the order of :mod:`raytide.policies.tiresias`.
(2) *Compaction*: if more than ten jobs are left waiting, every job outside of the first queue that has GPUs keeps its
minimum only. (3) *Expansion*: while GPUs are left, give one to the job whose speed-up gains most by it; a waiting job
enters with its minimum and counts with its speed-up per GPU; nobody is given a GPU that gains nothing.
A job that runs and may not be preempted has its minimum before all others.
Limits: no cost of resizes is weighed, so jobs are resized at almost every event.
Starvation: possible; there is no promotion, and a job in the second queue waits while the first one is busy.
"""

from __future__ import annotations

from functools import partial

from raytide.core import Decision, EventDriven, Job, View
from raytide.policies.budget import needs
from raytide.policies.shares import Shares
from raytide.policies.tiresias import DEMOTION_GPU_S, TwoQueues

WAITING_LIMIT = 10


class ElasticTiresias:
    """Two queues, elastic jobs.

    Args:
        demotion_gpu_s: Attained service at which a job leaves the first queue.
        waiting_limit: With more waiting jobs than this, jobs of the second queue shrink.
    """

    name = "elastic_tiresias"
    clock = EventDriven()

    def __init__(self, demotion_gpu_s: float = DEMOTION_GPU_S, waiting_limit: int = WAITING_LIMIT) -> None:
        self._queues = TwoQueues(demotion_gpu_s)
        self._waiting_limit = waiting_limit

    def decide(self, view: View) -> Decision:
        """Basic shares, compaction, expansion."""
        ordered = self._queues.ordered(view)
        shares = Shares(view, ordered)
        for job in ordered:
            shares.raise_to(job, job.spec.requested)
        if shares.waiting > self._waiting_limit:
            for job in ordered:
                if self._queues.level(job, view.now):
                    shares.shrink(job)
        shares.expand(partial(speedup_gain, view))
        gpus = {job.job: shares.count[job.job] * job.spec.roles[0].gpus for job in ordered}
        return Decision(shares.shapes(), wake_at_s=self._queues.next_demotion_s(view, gpus))

    def why_waiting(self, view: View, job: Job) -> str:
        """Its queue, and what is missing."""
        return f"in queue {self._queues.level(job, view.now) + 1} of 2: {needs(view, job)}"


def speedup_gain(view: View, job: Job, count: int) -> float:
    """What the next step of growth from ``count`` replicas adds to the job's speed-up, per GPU."""
    speed, role = view.speed(job).speed, job.spec.roles[0]
    if not count:
        return speed(role.least * role.gpus) / speed(role.gpus) / role.least
    return (speed((count + 1) * role.gpus) - speed(count * role.gpus)) / speed(role.gpus)
