"""Gathering facts: everything here looks at the machine, and judges nothing."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from raytide.doctor.facts import Disk, Gpus, Machine, Package, Software

_QUERY = ("--query-gpu=name,driver_version", "--format=csv,noheader")
_DRIVER_TIMEOUT_S = 20.0


def software() -> Software:
    """Python, and the packages that raytide's own metadata demands."""
    version = platform.python_version()
    try:
        described = metadata.metadata("raytide")
    except metadata.PackageNotFoundError:
        return Software(version, "", True, ())
    demanded = described["Requires-Python"]
    needed = [Requirement(text) for text in metadata.requires("raytide") or ()]
    always = [need for need in needed if need.marker is None or need.marker.evaluate({"extra": ""})]
    return Software(version, demanded, version in SpecifierSet(demanded), tuple(map(_package, always)))


def _package(need: Requirement) -> Package:
    try:
        found = metadata.version(need.name)
    except metadata.PackageNotFoundError:
        found = ""
    fits = bool(found) and need.specifier.contains(found, prereleases=True)
    return Package(need.name, str(need.specifier), found, fits)


def gpus() -> Gpus:
    """GPUs as the driver has them, and as torch and NCCL do."""
    names, driver = _driver()
    try:
        import torch  # noqa: PLC0415 - it may be what is broken
    except (ImportError, OSError) as error:
        return Gpus(names, driver, torch_error=str(error).splitlines()[0])
    from raytide.collective.nccl_open import nccl_version, unavailable_reason  # noqa: PLC0415 - imports torch

    missing = unavailable_reason()
    return Gpus(
        names,
        driver,
        torch.__version__,
        cuda=torch.version.cuda or "",
        torch_gpus=torch.cuda.device_count() if torch.cuda.is_available() else 0,
        nccl="" if missing else nccl_version(),
        nccl_missing=missing,
    )


def _driver() -> tuple[tuple[str, ...], str]:
    """Names of the GPUs and the driver's version, from NVML through its own tool; nothing without one."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return (), ""
    try:
        done = subprocess.run(  # noqa: S603 - the driver's own tool
            [tool, *_QUERY], capture_output=True, text=True, timeout=_DRIVER_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return (), ""
    rows = [line.rsplit(", ", 1) for line in done.stdout.splitlines() if ", " in line]
    return tuple(name for name, _ in rows), rows[0][1] if rows else ""


def machine(storage: str) -> Machine:
    """Disks, memory and limits.

    Args:
        storage: Folder or URL for checkpoints.
    """
    shm = Path("/dev/shm")  # noqa: S108 - it is looked at, not written
    core = resource.getrlimit(resource.RLIMIT_CORE)[0]
    return Machine(
        disk(storage),
        shutil.disk_usage(shm).total if shm.is_dir() else None,
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        None if core == resource.RLIM_INFINITY else core,
    )


def disk(storage: str) -> Disk:
    """Room for checkpoints; in the nearest folder above, if the folder is still to be made."""
    if "://" in storage:
        return Disk(storage, is_url=True)
    path = Path(storage).expanduser().absolute()
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return Disk(str(path), is_writable=writable, free_bytes=shutil.disk_usage(there).free)
