"""Python, packages, GPUs and what reaches them."""

from __future__ import annotations

from raytide.doctor.facts import Gpus, Package, Software
from raytide.doctor.findings import Finding, bad, ok, warn

HANGING_NCCL = (2, 31)
"""From here on, survivors that destroy a communicator which another rank has aborted wait in a bootstrap barrier."""


def check_python(software: Software) -> Finding:
    """This Python."""
    if not software.python_fits:
        remedy = f"Use Python {software.python_demanded}"
        return bad("python", f"{software.python}, and {software.python_demanded} is needed", remedy)
    return ok("python", software.python)


def check_packages(software: Software) -> list[Finding]:
    """One finding for all that fit, one for Ray, one for each that does not fit."""
    if not software.packages:
        remedy = "Run pip install raytide, on every node"
        return [warn("packages", "raytide is not installed: what it needs is not known", remedy)]
    wrong = [_wrong(package) for package in software.packages if not package.fits]
    fine = [package for package in software.packages if package.fits]
    found = [ok("packages", f"{len(fine)} of {len(software.packages)} are as raytide needs them")]
    return [*found, *(ok("ray", package.found) for package in fine if package.name == "ray"), *wrong]


def _wrong(package: Package) -> Finding:
    detail = f"{package.found or 'not installed'}, and {package.demanded or 'any version'} is needed"
    return bad(package.name, detail, f"Run pip install '{package.name}{package.demanded}'")


def check_torch(gpus: Gpus) -> Finding:
    """Whether torch can be imported, and whether it fits the machine."""
    if not gpus.torch:
        return bad("torch", f"it cannot be imported: {gpus.torch_error}", "Install it again, as pytorch.org says")
    built = f"built for CUDA {gpus.cuda}" if gpus.cuda else "built for CPUs"
    if gpus.names and not gpus.cuda:
        return bad("torch", f"{gpus.torch}, {built}, on a machine with GPUs", "Install a CUDA build of torch")
    return ok("torch", f"{gpus.torch}, {built}")


def check_gpus(gpus: Gpus) -> Finding:
    """Whether torch can use all GPUs that the driver tells of."""
    seen = f"{len(gpus.names)} of {', '.join(sorted(set(gpus.names)))} with driver {gpus.driver}"
    if not gpus.names:
        return ok("GPUs", "none: jobs train on CPUs here")
    if not gpus.torch_gpus:
        remedy = f"Install a driver that knows CUDA {gpus.cuda}, or torch for an older CUDA; see CUDA_VISIBLE_DEVICES"
        return bad("GPUs", f"{seen}, and torch can use none", remedy)
    if gpus.torch_gpus < len(gpus.names):
        return warn("GPUs", f"{seen}, and torch sees {gpus.torch_gpus}", "Is CUDA_VISIBLE_DEVICES meant to hide some?")
    return ok("GPUs", seen)


def check_nccl(gpus: Gpus) -> Finding:
    """The NCCL that groups of replicas would use."""
    if not gpus.names:
        return ok("NCCL", "not needed without GPUs")
    if not gpus.nccl:
        return bad("NCCL", gpus.nccl_missing or "not found", "Run pip install 'raytide[cuda13]', or 'raytide[cuda12]'")
    if tuple(int(part) for part in gpus.nccl.split(".")[:2]) >= HANGING_NCCL:
        detail = f"{gpus.nccl}: survivors of an aborted communicator can hang when they destroy it (pytorch#194679)"
        return warn("NCCL", detail, "Stay at NCCL 2.30.7 or older")
    return ok("NCCL", gpus.nccl)
