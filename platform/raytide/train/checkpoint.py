"""Checkpoints: a job's whole state on any filesystem, loadable at any number of replicas.

State is the same on every replica, so one replica writes it, beside training. A checkpoint is there whole
or not at all, at whatever moment its writer dies (see :mod:`raytide.train.checkpoint_files` for how).

Warning:
    Loading a checkpoint unpickles parts of it, which can run code of whoever wrote it. Finding checkpoints
    and reading their :attr:`Checkpoint.meta` does not.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import logging
import re
import tempfile
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from raytide.elastic.model import Position
from raytide.errors import ConfigError
from raytide.train.captured import Captured
from raytide.train.checkpoint_files import (
    ASIDE,
    DATA_FILES,
    FORMAT,
    MARKER,
    delete,
    delete_leftover,
    is_complete,
    is_leftover,
    read_data,
    read_marker,
    reading,
    sizes,
    write_data,
)
from raytide.train.checkpoint_place import CheckpointError, Place, describe, writing
from raytide.train.registry import Registry

__all__ = ["Checkpoint", "CheckpointError", "CheckpointMeta", "CheckpointStore"]

logger = logging.getLogger(__name__)

_SETTING = "RunConfig.storage_path"
_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class CheckpointMeta:
    """What a checkpoint is; small, and read without reading the state.

    Attributes:
        job: The job that wrote it.
        position: Step, epoch and cursor at which training goes on.
        world_size: Replicas that the job had; it may go on with any other number.
        metrics: The last reported metrics.
        extra: Anything else that JSON can hold (tuples come back as lists, keys as strings).
        format: Version of the layout on disk.
    """

    job: str
    position: Position
    world_size: int
    metrics: dict[str, float] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; metrics that are tensors or numpy scalars become floats."""
        return asdict(self) | {"metrics": {name: float(value) for name, value in self.metrics.items()}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CheckpointMeta:
        names = ("job", "world_size", "metrics", "extra", "format")
        return cls(position=Position(**data["position"]), **{name: data[name] for name in names})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint by its path; equal paths are equal checkpoints. Makes no check until it is used.

    Every use raises :class:`~raytide.errors.StateMismatch`, naming the path, where no whole checkpoint is.

    Attributes:
        path: Its directory: a local path, or an fsspec URL (``s3://bucket/run/step-000000120``).
    """

    path: str

    @property
    def meta(self) -> CheckpointMeta:
        """What the checkpoint is."""
        return _meta(self._place(), self._marker())

    def load(self) -> Any:
        """The job's state, on the CPU. Unpickles: see the module's warning."""
        return read_data(self._place(), self._sizes()).value()

    def load_model(self, module: nn.Module, name: str = "model0") -> None:
        """Load a model's weights and buffers into ``module``, in place, without reading optimizer state.

        Args:
            module: A model like the one that was prepared; it may be on any device.
            name: ``model0`` is the first one given to ``prepare()``, ``model1`` the second.

        Raises:
            StateMismatch: There is no such model, or ``module`` is another one; it is then unchanged.
        """
        state = read_data(self._place(), self._sizes(), only=name).value()
        registry = Registry()
        registry.load({registry.add(module): state}, f"{self.path}, {name}")

    def to_directory(self, path: str | Path | None = None) -> str:
        """Copy the checkpoint into a local directory (a new temporary one if not given); returns its path.

        Raises:
            CheckpointError: The copy could not be written.
        """
        source, marker = self._place(), self._marker()
        target = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="raytide-checkpoint-"))
        try:
            target.mkdir(parents=True, exist_ok=True)
            (target / MARKER).unlink(missing_ok=True)
            for name in DATA_FILES:
                source.fs.get_file(source.file(name), str(target / name))
            Place.of(str(target), "Checkpoint.to_directory(path)").put(MARKER, json.dumps(marker).encode())
        except OSError as error:
            raise CheckpointError(self.path, f"cannot be copied to {target}: {describe(error)}") from error
        return str(target)

    def _place(self) -> Place:
        return Place.of(self.path, "Checkpoint.path")

    def _marker(self) -> dict[str, Any]:
        return read_marker(self._place())

    def _sizes(self) -> dict[str, int]:
        with reading(self._place()):
            return dict(self._marker()["files"])


@dataclass(frozen=True, order=True)
class _Entry:
    """A directory ``step-N``, or ``step-N.copy`` where the same step was written again."""

    step: int
    copy: int
    place: Place = field(compare=False)


class CheckpointStore:
    """The checkpoints of one job, under one directory.

    One write at a time. A second writer under the same root (a replica that froze and was replaced meanwhile)
    spoils nothing on a local filesystem, but one of the two writes fails; object stores cannot promise that.

    Args:
        root: A local path or an fsspec URL.
        keep: Keep this many of the newest; all if None.

    Raises:
        ConfigError: No filesystem is known for ``root``, or ``keep`` is less than 1.
    """

    def __init__(self, root: str, *, keep: int | None = None) -> None:
        if keep is not None and keep < 1:
            problem = f"{keep} checkpoints would leave none to go on from"
            raise ConfigError("CheckpointConfig.num_to_keep", problem, "Give at least 1, or None to keep all")
        self.keep = keep
        self._root = Place.of(root, _SETTING)
        self._lock = threading.Lock()

    @property
    def root(self) -> str:
        """The directory: an absolute path, or a URL."""
        return self._root.url

    def check_writable(self) -> None:
        """Create the directory, and write, read back and delete a small file in it.

        Raises:
            ConfigError: That failed.
        """
        probe = self._root.file(f".probe-{uuid.uuid4().hex}")
        try:
            self._root.fs.makedirs(self._root.path, exist_ok=True)
            self._root.fs.pipe_file(probe, b"raytide")
            self._root.fs.cat_file(probe)
            self._root.fs.rm_file(probe)
        except OSError as error:
            remedy = "Give a directory in which every replica may create files"
            raise ConfigError(_SETTING, f"cannot write to {self.root} ({describe(error)})", remedy) from error

    def write(self, state: Captured, meta: CheckpointMeta) -> Checkpoint:
        """Write a checkpoint, then delete those that ``keep`` no longer covers, and return it.

        Blocks; call it from a thread beside training, with a state that nobody changes meanwhile
        (:meth:`Captured.cloned`). Leftovers of earlier writes that were cut off are deleted first. A step
        written before is replaced: the old checkpoint goes only when the new one is complete.

        Raises:
            CheckpointError: It could not be written (disk full, no permission, ...); those
                before it are untouched.
        """
        with self._lock:
            # Named before leftovers go: a writer that still lives must not find its directory in use again.
            written = self._next_place(meta.position.step)
            self._delete(self._leftovers(), delete_leftover)
            self._write(written, state, meta)
            self._delete([place for place in self._superseded() if place != written], delete)
        return Checkpoint(written.url)

    def list(self) -> builtins.list[Checkpoint]:
        """All complete checkpoints, oldest (lowest step) first; reads no pickles."""
        return [Checkpoint(entry.place.url) for entry in self._newest_by_step()]

    def latest(self) -> Checkpoint | None:
        """The complete checkpoint with the highest step; None if there is none."""
        for entry in reversed(self._entries()):
            if is_complete(entry.place):
                return Checkpoint(entry.place.url)
        return None

    def read(self, path: str) -> tuple[Any, CheckpointMeta]:
        """State (on the CPU) and meaning of the checkpoint at ``path``, which need not be of this store.

        Raises:
            StateMismatch: There is no whole checkpoint of raytide at ``path``; names the remedy.
            CheckpointError: Storage cannot be read.
        """
        checkpoint = Checkpoint(path)
        return checkpoint.load(), checkpoint.meta

    def _write(self, place: Place, state: Captured, meta: CheckpointMeta) -> None:
        described = _described(meta, self.root)
        with writing(place):
            place.fs.mkdir(place.path, create_parents=True)
        try:
            with writing(place):
                write_data(place, state)
                place.put(MARKER, json.dumps(described | {"files": sizes(place)}).encode())
        except CheckpointError:
            with contextlib.suppress(OSError):
                delete(place)
            raise

    def _next_place(self, step: int) -> Place:
        copies = [entry.copy for entry in self._entries() if entry.step == step]
        suffix = f".{max(copies) + 1}" if copies else ""
        return self._root.child(f"step-{step:09d}{suffix}")

    def _names(self) -> Sequence[str]:
        try:
            return self._root.names()
        except OSError as error:
            raise CheckpointError(self.root, f"cannot be listed: {describe(error)}") from error

    def _entries(self) -> Sequence[_Entry]:
        """All directories that are named like checkpoints, complete or not, in order."""
        matches = [match for name in self._names() if (match := _NAME.fullmatch(name))]
        return sorted(_Entry(int(m[1]), int(m[2] or 0), self._root.child(m[0])) for m in matches)

    def _newest_by_step(self) -> Sequence[_Entry]:
        return list({e.step: e for e in self._entries() if is_complete(e.place)}.values())

    def _leftovers(self) -> Sequence[Place]:
        aside = [self._root.child(name) for name in self._names() if name.startswith(ASIDE)]
        return aside + [e.place for e in self._entries() if is_leftover(e.place)]

    def _superseded(self) -> Sequence[Place]:
        newest = self._newest_by_step()
        kept = newest if self.keep is None else newest[-self.keep :]
        return [e.place for e in self._entries() if is_complete(e.place) and e not in kept]

    def _delete(self, places: Sequence[Place], how: Callable[[Place], None]) -> None:
        for place in places:
            try:
                how(place)
            except OSError as error:
                logger.warning("checkpoint %s could not be deleted: %s", place.url, describe(error))


def _meta(place: Place, marker: dict[str, Any]) -> CheckpointMeta:
    with reading(place):
        return CheckpointMeta.from_json(marker)


def _described(meta: CheckpointMeta, root: str) -> dict[str, Any]:
    try:
        described = meta.to_json()
        json.dumps(described)
    except (TypeError, ValueError) as error:
        problem = f"metrics are no numbers, or extra is not JSON: {error}"
        raise CheckpointError(root, problem) from error
    return described
