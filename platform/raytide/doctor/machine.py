"""Disks, memory and limits of a machine."""

from __future__ import annotations

from raytide.doctor.facts import Disk, Machine
from raytide.doctor.findings import Finding, bad, ok, warn

_MIB, _GIB = 1024**2, 1024**3
LITTLE_ROOM, NO_ROOM = 20 * _GIB, _GIB
"""Free bytes where checkpoints go."""
DOCKER_SHM = 64 * _MIB
"""What a container has unless it is given more: too little for a loader process."""
STORE_SHARE, STORE_LIMIT = 0.3, 200 * 1000**3
"""Ray's object store takes this share of the memory, and not more than that."""
FEW_FILES, SCARCELY_FILES = 8192, 1024


def check_storage(disk: Disk) -> Finding:
    """The folder of checkpoints."""
    if disk.is_url:
        return ok("storage", f"{disk.path} is no folder, and was not looked at")
    if not disk.is_writable:
        return bad("storage", f"{disk.path} cannot be written", "Give --storage a folder of yours on every node")
    detail = f"{_size(disk.free_bytes)} free in {disk.path}"
    if disk.free_bytes < LITTLE_ROOM:
        level = bad if disk.free_bytes < NO_ROOM else warn
        return level("storage", detail, "Make room: a checkpoint holds the model and the state of its optimizer")
    return ok("storage", detail)


def check_shm(machine: Machine) -> Finding:
    """``/dev/shm``, which holds Ray's objects and what loader processes hand over."""
    remedy = "Give the container --shm-size=16g, or mount /dev/shm larger"
    if machine.shm_bytes is None:
        return bad("shared memory", "there is no /dev/shm", remedy)
    store = min(int(machine.memory_bytes * STORE_SHARE), STORE_LIMIT)
    detail = f"{_size(machine.shm_bytes)} in /dev/shm"
    if machine.shm_bytes <= DOCKER_SHM:
        return bad("shared memory", f"{detail}: loader processes die of a bus error", remedy)
    if machine.shm_bytes < store:
        return warn("shared memory", f"{detail}; Ray puts its {_size(store)} of objects on disk instead", remedy)
    return ok("shared memory", detail)


def check_files(machine: Machine) -> Finding:
    """``ulimit -n``: each connection of a replica is an open file."""
    detail = f"{machine.open_files:,} at most"
    if machine.open_files < FEW_FILES:
        level = bad if machine.open_files < SCARCELY_FILES else warn
        return level("open files", detail, "Run ulimit -n 65536 before ray start")
    return ok("open files", detail)


def check_core(machine: Machine) -> Finding:
    """``ulimit -c``: a replica that is killed by a signal may write all its memory to the disk."""
    if machine.core_bytes == 0:
        return ok("core dumps", "off")
    size = "of any size" if machine.core_bytes is None else f"up to {_size(machine.core_bytes)}"
    return warn("core dumps", f"{size}: each replica that crashes may write one", "Run ulimit -c 0 before ray start")


def _size(count: int) -> str:
    return f"{count / _GIB:,.1f} GiB" if count >= _GIB else f"{count / _MIB:,.0f} MiB"
