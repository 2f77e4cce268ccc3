"""Processes that use a state store, for tests that need more than one of them, or kill one.

``python -m support.state_writer open URL`` says ``ready``, waits for a line, opens the store, begins an incarnation
and says its number. ``write URL`` goes on: round after round, it says a number once that round is acknowledged.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen

from raytide.core.events import Submitted
from raytide.state import NewJob, Round, StateStore, Work
from support.scheduling import job

JOBS, BLOBS = 4, ("loop", "config")


def start(what: str, url: str) -> Popen[str]:
    """Start such a process, and wait until it is ready."""
    process = Popen(
        [sys.executable, "-m", "support.state_writer", what, url],
        cwd=Path(__file__).parents[1],
        stdin=PIPE,
        stdout=PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: Popen[str]) -> None:
    """Let it open its store."""
    process.stdin.write("go\n")
    process.stdin.flush()


def jobs_of(incarnation: int, number: int) -> list[NewJob]:
    """What is handed in with a round."""
    names = [f"{incarnation}.{number}.{i}" for i in range(JOBS)]
    blobs = {name: name.encode() * 2000 for name in BLOBS}  # large enough for several pages
    return [NewJob(job(name), Work("elastic", "{}", blobs), f"key of {name}") for name in names]


def main(what: str, url: str) -> None:
    """Be such a process."""
    print("ready", flush=True)
    sys.stdin.readline()
    store = StateStore(url)
    incarnation = store.begin_incarnation("{}")
    print(incarnation, flush=True)
    for number in count(1) if what == "write" else ():
        new = jobs_of(incarnation, number)
        store.commit(Round(incarnation, number, float(number), [Submitted(one.spec) for one in new], new_jobs=new))
        print(number, flush=True)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
