from __future__ import annotations

import pytest

from raytide.doctor.facts import Disk, Machine
from raytide.doctor.machine import check_core, check_files, check_shm, check_storage

MIB, GIB = 1024**2, 1024**3


def machine(**changes: object) -> Machine:
    given = {"storage": Disk("/s"), "shm_bytes": 64 * GIB, "memory_bytes": 128 * GIB, "open_files": 65536}
    return Machine(**{**given, "core_bytes": 0, **changes})


@pytest.mark.parametrize(
    ("disk", "level", "said"),
    [
        (Disk("/s", free_bytes=100 * GIB), "ok", "100.0 GiB free in /s"),
        (Disk("/s", free_bytes=5 * GIB), "warn", "5.0 GiB free in /s"),
        (Disk("/s", free_bytes=200 * MIB), "bad", "200 MiB free in /s"),
        (Disk("/s", is_writable=False, free_bytes=100 * GIB), "bad", "/s cannot be written"),
        (Disk("s3://b", is_url=True), "ok", "s3://b is no folder, and was not looked at"),
    ],
)
def test_storage(disk, level, said):
    found = check_storage(disk)
    assert (found.level, found.detail) == (level, said)


@pytest.mark.parametrize(
    ("shm_bytes", "memory_bytes", "level"),
    [
        (64 * GIB, 128 * GIB, "ok"),
        (16 * GIB, 128 * GIB, "warn"),
        (200 * GIB, 2048 * GIB, "ok"),
        (64 * MIB, 128 * GIB, "bad"),
        (None, 128 * GIB, "bad"),
    ],
)
def test_shared_memory(shm_bytes, memory_bytes, level):
    found = check_shm(machine(shm_bytes=shm_bytes, memory_bytes=memory_bytes))
    assert found.level == level
    assert bool(found.remedy) == (level != "ok")


@pytest.mark.parametrize(("files", "level"), [(65536, "ok"), (8192, "ok"), (4096, "warn"), (1023, "bad")])
def test_open_files(files, level):
    assert check_files(machine(open_files=files)).level == level


@pytest.mark.parametrize(
    ("size", "level", "said"), [(0, "ok", "off"), (None, "warn", "of any size"), (GIB, "warn", "up to 1.0 GiB")]
)
def test_core_dumps(size, level, said):
    found = check_core(machine(core_bytes=size))
    assert found.level == level
    assert found.detail.startswith(said)
