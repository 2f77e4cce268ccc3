"""What is refused at submission: jobs that can never run here, instead of jobs that wait for ever."""

from __future__ import annotations

from raytide.core.model import JobSpec
from raytide.core.table import JobTable


def why_impossible(spec: JobSpec, table: JobTable, most_gpus: int) -> str:
    """Why a job can never run; empty if it can.

    Args:
        spec: The job.
        table: The cluster and the tenants.
        most_gpus: GPUs the cluster can have, counting those that an autoscaler would add.
    """
    least = spec.gpus(spec.least_shape)
    if least > most_gpus:
        return f"it needs at least {least} GPUs and the cluster has {most_gpus}"
    biggest = table.cluster.largest_node_gpus
    for role in spec.roles:
        if biggest and role.gpus > biggest:
            return f"each {role.name} needs {role.gpus} GPUs on one node and the largest node has {biggest}"
    small = table.tenants.limiting(spec.tenant, {}, least)
    return f"it needs at least {least} GPUs and tenant {small.tenant} is limited to {small.limit_gpus}" if small else ""
