"""What is known of a machine before anything is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Package:
    """A package that raytide needs.

    Attributes:
        name: Its name.
        demanded: The versions that will do, as in ``>=2.60``.
        found: The version that is there; empty if none is.
        fits: It is one of those.
    """

    name: str
    demanded: str
    found: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Software:
    """Python and packages.

    Attributes:
        python: Version of this Python.
        python_demanded: Versions that will do.
        python_fits: It is one of those.
        packages: What raytide needs; empty if raytide itself is not installed.
    """

    python: str
    python_demanded: str
    python_fits: bool
    packages: Sequence[Package]


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs, and what reaches them.

    Attributes:
        names: Names of the GPUs that the driver (NVML) tells of.
        driver: Version of the driver; empty without one.
        torch: Version of torch; empty if it cannot be imported.
        torch_error: Why not.
        cuda: CUDA version that torch is built for; empty for a CPU build.
        torch_gpus: How many GPUs torch can use.
        nccl: Version of the NCCL that groups would use; empty if none can.
        nccl_missing: Why not, with the remedy.
    """

    names: Sequence[str] = ()
    driver: str = ""
    torch: str = ""
    torch_error: str = ""
    cuda: str = ""
    torch_gpus: int = 0
    nccl: str = ""
    nccl_missing: str = ""


@dataclass(frozen=True, slots=True)
class Port:
    """A port that Ray's head uses.

    Attributes:
        port: Its number.
        use: What for.
        is_taken: Something listens on it.
        is_ray: It is Ray, which answers.
    """

    port: int
    use: str
    is_taken: bool
    is_ray: bool


@dataclass(frozen=True, slots=True)
class Disk:
    """Room in a folder.

    Attributes:
        path: The folder, or a URL, of which nothing else is known.
        is_url: It is one.
        is_writable: This user can write there, or make the folder.
        free_bytes: Room that is left.
    """

    path: str
    is_url: bool = False
    is_writable: bool = True
    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """Disks, memory and limits.

    Attributes:
        storage: Where checkpoints go.
        shm_bytes: Size of ``/dev/shm``; None if there is none.
        memory_bytes: Memory of the machine.
        open_files: Files that a process may have open.
        core_bytes: How large a core dump may be; None for any size.
    """

    storage: Disk
    shm_bytes: int | None
    memory_bytes: int
    open_files: int
    core_bytes: int | None


@dataclass(frozen=True, slots=True)
class Clock:
    """A node's clock.

    Attributes:
        node: The node.
        ahead_s: How far it is ahead of this machine's.
        uncertain_s: By how much that may be wrong: half of the call's duration.
    """

    node: str
    ahead_s: float
    uncertain_s: float


@dataclass(frozen=True, slots=True)
class RayCluster:
    """The cluster of this machine.

    Attributes:
        address: Where a driver would connect to; empty if nowhere.
        is_left_behind: The address is one that ``ray start`` left, and nothing listens there.
        answers: A cluster answers there.
        auth_mode: ``RAY_AUTH_MODE``; None if it is not set.
        has_token: Ray finds an authentication token.
        demands_token: The dashboard refuses calls without one.
        clocks: Of its nodes.
        failure: Why its nodes could not be asked; empty if they could, or none were.
    """

    address: str = ""
    is_left_behind: bool = False
    answers: bool = False
    auth_mode: str | None = None
    has_token: bool = False
    demands_token: bool = False
    clocks: Sequence[Clock] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it."""

    software: Software
    gpus: Gpus
    ports: Sequence[Port]
    machine: Machine
    cluster: RayCluster
