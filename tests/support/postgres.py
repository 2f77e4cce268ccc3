"""A PostgreSQL server of our own, from the binaries of this machine; gone when the tests are over."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

_numbers = itertools.count(1)


def _binaries() -> Path:
    """The folder of ``initdb`` and ``pg_ctl``; skips the test where there is none."""
    found = [Path(path).resolve().parent] if (path := shutil.which("initdb")) else []
    # Debian keeps them out of the PATH, a folder for each version.
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    for folder in found:
        if (folder / "pg_ctl").exists() and (folder / "initdb").exists():
            return folder
    pytest.skip("PostgreSQL is not installed here (no initdb and pg_ctl in PATH or /usr/lib/postgresql/*/bin)")


def _owner() -> pwd.struct_passwd | None:
    """Whom the server runs as: PostgreSQL refuses root. None: as ourselves."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server that listens on a socket in its own folder only; gives that folder."""
    binaries, owner = _binaries(), _owner()
    # Not in pytest's folder: the path of a socket has at most 107 characters, and only we may look into that one.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
    if owner:
        os.chown(folder, owner.pw_uid, owner.pw_gid)

    def run(tool: str, *arguments: str) -> None:
        command = [str(binaries / tool), "-D", str(folder / "data"), *arguments]
        log = folder / "log"
        with log.open("a") as output:
            done = subprocess.run(
                command, cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False, **who
            )
        assert done.returncode == 0, f"{tool}: {log.read_text()}"

    try:
        run("initdb", "--username=raytide", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        run("pg_ctl", "start", "-w", "-o", f"-k {folder} -c listen_addresses=''")
        try:
            yield str(folder)
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate")
    finally:
        shutil.rmtree(folder)


def fresh_database(folder: str) -> str:
    """Make an empty database in the server of :func:`postgres_server`; gives its URL."""
    name = f"test{next(_numbers)}"
    with psycopg.connect(f"host={folder} user=raytide dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://raytide@/{name}?host={folder}"
