from __future__ import annotations

import pytest

from raytide.doctor.facts import Gpus, Package, Software
from raytide.doctor.findings import Finding
from raytide.doctor.software import check_gpus, check_nccl, check_packages, check_python, check_torch

RAY = Package("ray", ">=2.60", "2.60.0", fits=True)
OLD = Package("typer", ">=0.15", "0.9", fits=False)
GONE = Package("rich", "", "", fits=False)
H200 = Gpus(("H200",) * 8, "580.1", "2.13.0", cuda="13.0", torch_gpus=8, nccl="2.30.7")


def gpus(**changes: object) -> Gpus:
    return Gpus(**{name: changes.get(name, getattr(H200, name)) for name in Gpus.__slots__})


def test_python():
    assert check_python(Software("3.11.7", ">=3.11", True, ())) == Finding("python", "ok", "3.11.7")
    old = check_python(Software("3.9.1", ">=3.11", False, ()))
    assert old == Finding("python", "bad", "3.9.1, and >=3.11 is needed", "Use Python >=3.11")


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ((RAY,), [("packages", "ok"), ("ray", "ok")]),
        ((RAY, OLD, GONE), [("packages", "ok"), ("ray", "ok"), ("typer", "bad"), ("rich", "bad")]),
        ((), [("packages", "warn")]),
    ],
)
def test_packages(packages, expected):
    assert [(found.what, found.level) for found in check_packages(Software("", "", True, packages))] == expected


def test_what_is_wrong_with_a_package_comes_with_the_command():
    old, gone = check_packages(Software("", "", True, (OLD, GONE)))[1:]
    assert (old.detail, old.remedy) == ("0.9, and >=0.15 is needed", "Run pip install 'typer>=0.15'")
    assert (gone.detail, gone.remedy) == ("not installed, and any version is needed", "Run pip install 'rich'")


@pytest.mark.parametrize(
    ("facts", "level", "said"),
    [
        (H200, "ok", "2.13.0, built for CUDA 13.0"),
        (Gpus(torch="2.13.0+cpu"), "ok", "2.13.0+cpu, built for CPUs"),
        (gpus(cuda=""), "bad", "2.13.0, built for CPUs, on a machine with GPUs"),
        (Gpus(torch_error="no libc10"), "bad", "it cannot be imported: no libc10"),
    ],
)
def test_torch(facts, level, said):
    found = check_torch(facts)
    assert (found.level, found.detail) == (level, said)


@pytest.mark.parametrize(
    ("facts", "level", "said"),
    [
        (H200, "ok", "8 of H200 with driver 580.1"),
        (Gpus(), "ok", "none: jobs train on CPUs here"),
        (gpus(torch_gpus=0), "bad", "8 of H200 with driver 580.1, and torch can use none"),
        (gpus(torch_gpus=2), "warn", "8 of H200 with driver 580.1, and torch sees 2"),
        (gpus(names=("H200", "A100")), "ok", "2 of A100, H200 with driver 580.1"),
    ],
)
def test_gpus(facts, level, said):
    found = check_gpus(facts)
    assert (found.level, found.detail) == (level, said)


@pytest.mark.parametrize(
    ("facts", "level", "said"),
    [
        (H200, "ok", "2.30.7"),
        (Gpus(), "ok", "not needed without GPUs"),
        (gpus(nccl="2.31.2"), "warn", "2.31.2: survivors of an aborted communicator can hang"),
        (gpus(nccl="3.0.1"), "warn", "3.0.1: survivors"),
        (gpus(nccl="2.4.8"), "ok", "2.4.8"),
        (gpus(nccl="", nccl_missing="no cupy"), "bad", "no cupy"),
    ],
)
def test_nccl(facts, level, said):
    found = check_nccl(facts)
    assert found.level == level
    assert found.detail.startswith(said)
