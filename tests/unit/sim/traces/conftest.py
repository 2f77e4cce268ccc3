"""Traces for these tests: written row by row, or the public ones where they are at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PUBLIC = Path(__file__).parents[4].parent / "shared" / "traces"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write lines to a file of this name."""

    def lines(*rows: str, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        return path

    return lines


@pytest.fixture
def public() -> Callable[[str], Path]:
    """A public trace, or the test is skipped: they are no part of the repository."""

    def find(name: str) -> Path:
        path = PUBLIC / name
        if not path.exists():
            pytest.skip(f"needs the public trace {name} beside the repository, in ../shared/traces")
        return path

    return find
