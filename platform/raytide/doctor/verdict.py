"""All judgements, in the order in which they are shown."""

from __future__ import annotations

from raytide.doctor.cluster import check_auth, check_clocks, check_cluster, check_ports
from raytide.doctor.facts import Facts
from raytide.doctor.findings import Finding
from raytide.doctor.machine import check_core, check_files, check_shm, check_storage
from raytide.doctor.software import check_gpus, check_nccl, check_packages, check_python, check_torch


def diagnose(facts: Facts) -> list[Finding]:
    """What there is to say about these facts."""
    return [
        check_python(facts.software),
        *check_packages(facts.software),
        check_torch(facts.gpus),
        check_gpus(facts.gpus),
        check_nccl(facts.gpus),
        *check_ports(facts.ports),
        check_cluster(facts.cluster),
        check_auth(facts.cluster),
        *check_clocks(facts.cluster),
        check_storage(facts.machine.storage),
        check_shm(facts.machine),
        check_files(facts.machine),
        check_core(facts.machine),
    ]
