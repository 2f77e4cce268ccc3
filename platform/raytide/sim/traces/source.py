"""Where the lines of a trace come from: a file, or a member of an archive, which is not unpacked."""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from raytide.sim.traces.errors import TraceError

_ARCHIVES = (".tar", ".tar.gz", ".tgz")
_COMMAS = csv.excel


class Tabs(csv.excel_tab):
    """Cells between tabs, in which quotes mean nothing."""

    quoting = csv.QUOTE_NONE


@dataclass(frozen=True)
class Source:
    """Lines of text and what to call them.

    Attributes:
        label: The file, and the member of the archive, for errors.
        lines: The text.
    """

    label: str
    lines: Iterable[str]

    def rows(self, dialect: type[csv.Dialect] = _COMMAS) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every row that is not blank.

        Raises:
            TraceError: The text is no table.
        """
        reader = csv.reader(self.lines, dialect)
        try:
            for cells in reader:
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield reader.line_num, cells
        except (csv.Error, UnicodeDecodeError) as error:
            raise TraceError(
                self.label, reader.line_num + 1, None, f"it is no text ({error})", "Save it as UTF-8"
            ) from None


@contextmanager
def open_source(path: str | Path, member: str | None = None) -> Iterator[Source]:
    """Open a file, or one member of an archive.

    Args:
        path: The file.
        member: Which member (with or without ``.csv``); archives with one table need none.

    Raises:
        TraceError: There is no such member, or ``path`` is no archive.
        OSError: The file cannot be opened.
    """
    if str(path).endswith(_ARCHIVES):
        with _open_member(Path(path), member) as source:
            yield source
        return
    refuse_member(path, member)
    with Path(path).open(encoding="utf-8-sig", newline="") as lines:
        yield Source(str(path), lines)


def refuse_member(path: str | Path, member: str | None) -> None:
    """Refuse a member of what is no archive.

    Raises:
        TraceError: ``member`` was given.
    """
    if member is not None:
        raise TraceError(str(path), None, None, f"it is no archive that could hold {member!r}", "Leave member out")


def members(path: str | Path) -> tuple[str, ...]:
    """The tables in an archive, sorted.

    Raises:
        TraceError: It is no archive.
        OSError: It cannot be opened.
    """
    with _archive(Path(path)) as archive:
        return _tables(archive)


@contextmanager
def _archive(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path) as archive:
            yield archive
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TraceError(str(path), None, None, f"the archive is damaged ({error})", "Fetch it again") from None


@contextmanager
def _open_member(path: Path, member: str | None) -> Iterator[Source]:
    with _archive(path) as archive:
        name = _choose(str(path), member, _tables(archive))
        raw = archive.extractfile(name)
        assert raw is not None, "only files are listed"
        with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as lines:
            yield Source(f"{path}:{name}", lines)


def _tables(archive: tarfile.TarFile) -> tuple[str, ...]:
    return tuple(sorted(info.name for info in archive if info.isfile() and info.name.endswith(".csv")))


def _choose(label: str, member: str | None, names: tuple[str, ...]) -> str:
    wanted = names if member is None else tuple(name for name in names if member in (name, name.removesuffix(".csv")))
    if len(wanted) == 1:
        return wanted[0]
    problem = f"it holds {len(names)} tables" if member is None else f"it holds no {member!r}"
    raise TraceError(label, None, None, problem, f"Choose one of the members {', '.join(names)}")
