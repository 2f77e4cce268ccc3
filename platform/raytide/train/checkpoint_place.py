"""Directories on any fsspec filesystem, as far as checkpoints need them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from raytide.errors import ConfigError, RaytideError

PARTIAL = ".tmp"
"""What :meth:`Place.put` appends to a name until the file is whole."""


class CheckpointError(RaytideError):
    """A checkpoint could not be written, or its storage could not be read.

    Args:
        path: The checkpoint, or the directory of checkpoints.
        problem: What failed and why.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"checkpoint {self.path}: {self.problem}"


@dataclass(frozen=True)
class Place:
    """A directory of a filesystem. ``path`` is what the filesystem itself calls it."""

    fs: Any
    path: str

    @classmethod
    def of(cls, url: str, setting: str) -> Place:
        """Where ``url`` (an fsspec URL or a local path) points; touches nothing.

        Raises:
            ConfigError: No filesystem is known for it; names ``setting``.
        """
        try:
            fs, path = url_to_fs(url)
        except (ValueError, ImportError) as error:
            remedy = "Give a local path or a URL whose fsspec filesystem is installed (s3:// needs s3fs)"
            raise ConfigError(setting, f"{url!r} is no place for checkpoints ({error})", remedy) from error
        return cls(fs, path.rstrip("/"))

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    @property
    def url(self) -> str:
        """How a user names it: an absolute path, or a URL."""
        return self.path if self.is_local else str(self.fs.unstrip_protocol(self.path))

    def child(self, name: str) -> Place:
        return Place(self.fs, self.file(name))

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def names(self) -> list[str]:
        """Names of what is in it; nothing if it does not exist."""
        self.fs.invalidate_cache()
        try:
            return [p.rstrip("/").rsplit("/", 1)[-1] for p in self.fs.ls(self.path, detail=False)]
        except FileNotFoundError:
            return []

    def put(self, name: str, data: bytes) -> None:
        """Write a small file so that it is there whole or not at all."""
        if not self.is_local:
            self.fs.pipe_file(self.file(name), data)
            return
        partial = Path(self.file(name) + PARTIAL)
        with partial.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(self.file(name))
        self.sync()

    def sync(self) -> None:
        """Make the names in a local directory survive a power cut; other filesystems do so by themselves."""
        if not self.is_local:
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def describe(error: BaseException) -> str:
    """Kind and text of an error, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@contextlib.contextmanager
def writing(place: Place) -> Iterator[None]:
    """Turn the errors of storage into a :class:`CheckpointError` that names ``place`` and the cause."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise CheckpointError(place.url, f"could not be written: {describe(_root_cause(error))}") from error


def _root_cause(error: BaseException) -> BaseException:
    """The storage's own error, where torch put one of its own in front of it."""
    first: BaseException | None = error
    while first is not None and not isinstance(first, OSError):
        first = first.__cause__ or first.__context__
    return first or error
