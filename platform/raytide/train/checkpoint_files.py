"""One checkpoint as files of one directory, on any fsspec filesystem.

::

    step-000000120/
        skeleton.pickle   the state without its tensors
        __0_0.distcp      the tensors, in the format of torch.distributed.checkpoint
        .metadata         where each tensor is in it, with shape and dtype
        complete.json     the marker: what the checkpoint is, and the sizes of the files above

The marker is written last and in one piece, and deleted first, so a directory with a marker holds a
whole checkpoint and any other holds the remains of one. Nothing but the marker is read to find and
describe checkpoints.

Warning:
    ``skeleton.pickle`` and ``.metadata`` are pickles: loading a checkpoint can run any code that whoever
    wrote it put there. Load only checkpoints that you trust as much as your own programs.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from raytide.errors import StateMismatch
from raytide.train.captured import Captured, TensorRef
from raytide.train.checkpoint_place import PARTIAL, CheckpointError, Place, describe

FORMAT = 1
MARKER = "complete.json"
SKELETON = "skeleton.pickle"
ASIDE = ".deleted-"
"""Begins the names of directories that are being deleted."""

DATA_FILES = (SKELETON, "__0_0.distcp", ".metadata")

_OURS = frozenset({*DATA_FILES, *(name + PARTIAL for name in (SKELETON, ".metadata", MARKER))})


def is_complete(place: Place) -> bool:
    """Whether ``place`` holds a whole checkpoint."""
    return bool(place.fs.exists(place.file(MARKER)))


def is_leftover(place: Place) -> bool:
    """The remains of a write that was cut off; never true of a directory with files of others in it."""
    return not is_complete(place) and _OURS.issuperset(place.names())


def delete_leftover(place: Place) -> None:
    """Delete the remains of a write, unless its writer turns out to live and to have completed it just now.

    A local directory is moved away first, so that a writer which goes on finds it gone and fails. Filesystems
    that cannot do that in one piece rely on there being one writer at a time.
    """
    if not place.is_local:
        delete(place)
        return
    aside = Path(place.path).with_name(f"{ASIDE}{uuid.uuid4().hex}")
    try:
        Path(place.path).rename(aside)
    except FileNotFoundError:
        return
    if (aside / MARKER).exists():
        aside.rename(place.path)
    else:
        delete(Place(place.fs, str(aside)))


def sizes(place: Place) -> dict[str, int]:
    """Bytes of each data file.

    Raises:
        FileNotFoundError: One of them is not there.
    """
    return {name: int(place.fs.info(place.file(name))["size"]) for name in DATA_FILES}


def delete(place: Place) -> None:
    """Delete a checkpoint, marker first; what somebody else deletes meanwhile is no error."""
    with contextlib.suppress(FileNotFoundError):
        place.fs.rm_file(place.file(MARKER))
    with contextlib.suppress(FileNotFoundError):
        place.fs.rm(place.path, recursive=True)


def write_data(place: Place, state: Captured) -> None:
    """Write everything but the marker into the existing directory ``place``.

    Raises:
        CheckpointError: The state holds something that pickle cannot write.
        OSError, RuntimeError: Storage refused; torch hides some errors of files in the latter.
    """
    try:
        skeleton = pickle.dumps(state.skeleton)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        problem = f"the state holds a value that cannot be pickled: {error}. Keep it out of state_dict()"
        raise CheckpointError(place.url, problem) from error
    place.put(SKELETON, skeleton)
    from raytide.train.checkpoint_dcp import save_tensors  # noqa: PLC0415 - seconds, paid with the first save

    save_tensors(place, {str(i): tensor for i, tensor in enumerate(state.tensors)})
    place.sync()


def read_data(place: Place, written: Mapping[str, int], only: str | None = None) -> Captured:
    """Read what :func:`write_data` wrote; ``written`` are the sizes in the marker.

    Args:
        place: The checkpoint.
        written: Bytes that each file must have.
        only: Read the entry of this name alone (``model0``), and no tensor outside it.

    Raises:
        StateMismatch: Files are missing, cut off or damaged, or there is no entry ``only``.
        CheckpointError: Storage cannot be read.
    """
    with reading(place):
        if sizes(place) != dict(written):
            raise StateMismatch(f"{place.url}: its files are not those that were written. {_REMEDY}")
        skeleton = pickle.loads(place.fs.cat_file(place.file(SKELETON)))  # noqa: S301 - see the module's warning
        part = skeleton if only is None else _entry(skeleton, only, place)
        from raytide.train.checkpoint_dcp import load_tensors  # noqa: PLC0415 - as in write_data

        return Captured(part, load_tensors(place, set(_references(part))))


# What JSON, pickle and torch raise on content that is damaged, foreign, or of classes unknown here.
_BAD_CONTENT = (
    pickle.UnpicklingError,
    RuntimeError,
    ValueError,
    LookupError,
    AttributeError,
    ImportError,
    EOFError,
    TypeError,
)
_REMEDY = "Use another checkpoint; CheckpointStore.latest() finds the newest whole one"


@contextlib.contextmanager
def reading(place: Place) -> Iterator[None]:
    """Turn the errors of reading a checkpoint into ones that name it.

    Raises:
        StateMismatch: It is not there, or its content cannot be understood.
        CheckpointError: Storage cannot be read.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StateMismatch(f"{place.url}: no whole checkpoint of raytide ({error}). {_REMEDY}") from error
    except OSError as error:
        raise CheckpointError(place.url, f"cannot be read: {describe(error)}") from error
    except _BAD_CONTENT as error:
        raise StateMismatch(f"{place.url}: cannot be understood ({describe(error)}). {_REMEDY}") from error


def read_marker(place: Place) -> dict[str, Any]:
    """The marker's content.

    Raises:
        StateMismatch: There is none, it is not raytide's, or it is of a newer raytide.
        CheckpointError: Storage cannot be read.
    """
    with reading(place):
        marker = json.loads(place.fs.cat_file(place.file(MARKER)))
        version = int(marker["format"])
    if version > FORMAT:
        problem = f"has format {version}, this raytide reads up to {FORMAT}"
        raise StateMismatch(f"{place.url}: {problem}. Upgrade raytide")
    return dict(marker)


def _references(skeleton: Any) -> Iterator[int]:
    if isinstance(skeleton, TensorRef):
        yield skeleton.index
    elif isinstance(skeleton, Mapping):
        for item in skeleton.values():
            yield from _references(item)
    elif isinstance(skeleton, (list, tuple)):
        for item in skeleton:
            yield from _references(item)


def _entry(skeleton: Any, name: str, place: Place) -> Any:
    """Entry ``name`` of the state, or of one of its parts."""
    levels = [skeleton, *skeleton.values()] if isinstance(skeleton, Mapping) else []
    for level in levels:
        if isinstance(level, Mapping) and name in level:
            return level[name]
    known = ", ".join(map(str, skeleton)) if isinstance(skeleton, Mapping) else "no named entries"
    raise StateMismatch(f"{place.url}: holds no {name!r}, but {known}. Give one of these names")
