"""A process that writes checkpoints and dies at a named moment.

For each line ``[root, moment, step, ...]`` on its input it forks a child (torch is imported once) and prints
``pid PID`` and, at its end, ``ended CODE``. The child prints each step when its checkpoint is written. At
``moment`` of the last step it kills itself with SIGKILL; ``never`` means that it goes on with further steps
until somebody else kills it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fsspec.implementations.local import LocalFileSystem

from raytide.elastic.model import Position
from raytide.train import checkpoint, checkpoint_dcp
from raytide.train.captured import Captured, capture
from raytide.train.checkpoint import CheckpointError, CheckpointMeta, CheckpointStore

ELEMENTS = 1_000_000


def state(step: int) -> Captured:
    return capture({"step": step, "layers": [torch.full((ELEMENTS,), step + i / 16) for i in range(8)]})


def is_whole(value: Any, step: int) -> bool:
    """Whether ``value`` is what :func:`state` gave for ``step``, to the last element."""
    layers = value["layers"]
    return value["step"] == step and all(bool((x == step + i / 16).all()) for i, x in enumerate(layers))


def die(*args: Any, **options: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(owner: Any, name: str, calls: int = 1, *, matching: str = "") -> None:
    """Die when ``owner.name`` has returned from its ``calls``-th call on a path that holds ``matching``."""
    original: Callable[..., Any] = getattr(owner, name)
    count = 0

    def call(*args: Any, **options: Any) -> Any:
        nonlocal count
        result = original(*args, **options)
        if matching in " ".join(map(str, args)):
            count += 1
            if count == calls:
                die()
        return result

    setattr(owner, name, call)


def die_in_the_middle_of_the_tensors() -> None:
    original = checkpoint_dcp.FsspecWriter.write_data

    def write_data(self: Any, plan: Any, planner: Any) -> Any:
        die_after(planner, "resolve_data", 4)
        return original(self, plan, planner)

    checkpoint_dcp.FsspecWriter.write_data = write_data


def limit_files() -> None:
    """Refuse to write beyond the first 8 MB of a file, as a full disk would."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000_000, 8_000_000))


MOMENTS: dict[str, Callable[[], None]] = {
    "directory made": lambda: die_after(LocalFileSystem, "mkdir"),
    "skeleton half written": lambda: setattr(Path, "replace", die),
    "skeleton written": lambda: die_after(Path, "replace", matching="skeleton"),
    "tensors half written": die_in_the_middle_of_the_tensors,
    "tensors written": lambda: die_after(checkpoint_dcp.FsspecWriter, "write_data"),
    "metadata written": lambda: die_after(checkpoint_dcp.FsspecWriter, "finish"),
    "marker not in place": lambda: die_after(checkpoint, "sizes"),
    "marker in place": lambda: die_after(Path, "replace", matching="complete.json"),
    "old marker deleted": lambda: die_after(LocalFileSystem, "rm_file", matching="complete.json"),
    "storage full": limit_files,
    "never": lambda: None,
}


def run(root: str, moment: str, *steps: int) -> None:
    store = CheckpointStore(root, keep=2)
    for step in steps[:-1]:
        write(store, step)
    MOMENTS[moment]()
    last = steps[-1]
    write(store, last)
    while moment == "never":
        last += 1
        write(store, last)


def write(store: CheckpointStore, step: int) -> None:
    try:
        store.write(state(step), CheckpointMeta("job", Position(step), 2))
    except CheckpointError as error:
        print("error", error, flush=True)
    else:
        print("wrote", step, flush=True)


def serve() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                run(*json.loads(line))
            finally:
                os._exit(0)
        print("pid", pid, flush=True)
        print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
