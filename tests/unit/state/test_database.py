"""What SQLite is told, and what people are told when a URL is wrong."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest
from sqlalchemy import select, text

from raytide.errors import RaytideError
from raytide.state import StateError, StateStore
from raytide.state.database import connect
from raytide.state.schema import migrate
from raytide.state.tables import VERSION_TABLE


def refused(url: str) -> str:
    """The one line that opening it ends with."""
    with pytest.raises(StateError) as caught:
        StateStore(url)
    assert isinstance(caught.value, RaytideError)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.fixture
def database(tmp_path):
    with closing(connect(f"sqlite:///{tmp_path}/state.db")) as opened:
        migrate(opened)
        yield opened


def test_what_is_committed_is_on_disk_and_readers_do_not_wait(database):
    with database.reading() as connection:
        assert connection.scalar(text("PRAGMA synchronous")) == 2
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(text("PRAGMA foreign_keys")) == 1


def test_a_reader_sees_one_instant_while_another_writes(database):
    version = select(text("version_num")).select_from(text(VERSION_TABLE))
    with database.reading() as reader:
        before = reader.scalar(version)
        with database.writing() as writer:
            writer.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = 'other'"))
        assert reader.scalar(version) == before
    with database.reading() as reader:
        assert reader.scalar(version) == "other"


def test_what_fails_leaves_nothing(database):
    def fail() -> None:
        with database.writing() as connection:
            connection.execute(text("INSERT INTO raytide_setting VALUES ('a', 'b')"))
            raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        fail()
    with database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM raytide_setting")) == 0


@pytest.mark.parametrize("url", ["", "state.db", "/var/lib/state.db", "sqlite:/x", "postgresql://host:port/x"])
def test_what_is_no_url(url):
    assert "Give sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE" in refused(url)


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "postgresql+asyncpg://u:secret@h/d", "nonsense://u:secret@h"])
def test_a_database_that_is_not_supported(url):
    line = refused(url)
    assert "is not supported" in line
    assert "secret" not in line


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_that_is_gone_with_its_process(url):
    assert "would not outlive a restart" in refused(url)


def test_a_folder_that_is_not_there(tmp_path):
    assert "unable to open database file" in refused(f"sqlite:///{tmp_path}/nowhere/state.db")


def test_a_folder_that_cannot_be_written():
    assert "unable to open database file" in refused("sqlite:////proc/state.db")


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "state.db").write_text("a diary, long enough not to be mistaken for an empty file" * 50)
    assert "file is not a database" in refused(f"sqlite:///{tmp_path}/state.db")


def test_a_server_that_is_not_there(tmp_path):
    line = refused(f"postgresql://u:secret@/d?host={tmp_path}")
    assert "connection" in line
    assert "secret" not in line


def test_psycopg_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'raytide[postgres]'" in refused("postgresql://u@h/d")
